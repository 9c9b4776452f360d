"""What the owner of a batch may do with it beyond OpenAI's calls: change, retry, delete."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Depends, Response

from api.answers import OneAnswer
from api.bodies import body_of, documented
from api.deps import AllServices, CurrentCaller, DbSession, row_id
from api.schemas.batches import BatchObject
from api.schemas.control import BatchChange, BatchRetry, DeletedBatch
from jobs import control, deletion, earlier, ids, intake, locations, reading, webhook_urls, windows
from jobs.control import Change
from jobs.doorbell import CONTROL, inference_queue
from jobs.intake import NewBatch
from jobs.models import Job, JobKind

router = APIRouter(prefix="/v1/batches/{batch_id}", tags=["batches"])

_PREFIX = ids.JOB_PREFIX[JobKind.BATCH]


@router.patch("", openapi_extra=documented(BatchChange))
def change_batch(
    batch_id: str,
    body: Annotated[BatchChange, Depends(body_of(BatchChange))],
    caller: CurrentCaller,
    session: DbSession,
    services: AllServices,
    background: BackgroundTasks,
) -> BatchObject:
    """Change priority, deadline, metadata, or pause it: what runs is finished, nothing is begun."""
    job_id = _id(batch_id)
    control.change(session, tenant_id=caller.tenant_id, job_id=job_id, wanted=_change(body))
    view = reading.get_job(session, tenant_id=caller.tenant_id, kind=JobKind.BATCH, job_id=job_id)
    if view.job.model is not None:
        background.add_task(services.doorbell.ring, inference_queue(view.job.model))
    return BatchObject.of(view)


@router.post("/retry", response_model=BatchObject, openapi_extra=documented(BatchRetry))
def retry_batch(
    batch_id: str,
    body: Annotated[BatchRetry, Depends(body_of(BatchRetry))],
    session: DbSession,
    once: OneAnswer,
    services: AllServices,
    background: BackgroundTasks,
) -> Response:
    """Run the rows of an ended batch that have no good result once more, as a batch of their own.

    Rows that validation refused stay out: the file is what it is.
    """
    if body.webhook_url is not None:
        webhook_urls.check(body.webhook_url, allow_private=services.allow_private_webhooks)
    tenant_id = once.caller.tenant_id

    def make() -> BatchObject:
        parent = earlier.to_retry(session, tenant_id=tenant_id, job_id=_id(batch_id))
        job = intake.create_batch(session, tenant_id=tenant_id, new=_retry(parent, body))
        return BatchObject.of(reading.of_new(session, job))

    answer = once.answer(session, make, body=body.model_dump_json())
    background.add_task(services.doorbell.ring, CONTROL)  # after the commit
    return Response(answer, media_type="application/json")


@router.delete("")
def delete_batch(batch_id: str, caller: CurrentCaller, session: DbSession) -> DeletedBatch:
    """Delete an ended batch and its output and error file.  Its input file stays."""
    deletion.delete(session, tenant_id=caller.tenant_id, job_id=_id(batch_id))
    return DeletedBatch(id=batch_id)


def _change(body: BatchChange) -> Change:
    text = body.completion_window
    return Change(
        interactive=None if body.priority is None else body.priority == "interactive",
        paused=body.paused,
        deadline=body.deadline,
        window=None if text is None else windows.parse(text),
        completion_window=text,
        metadata=body.new_metadata,
    )


def _retry(parent: Job, body: BatchRetry) -> NewBatch:
    text = body.completion_window or parent.completion_window
    assert parent.input_file_id is not None  # as of every batch
    assert text is not None
    return NewBatch(
        endpoint=parent.endpoint,
        input_file_id=parent.input_file_id,
        completion_window=text,
        expires_in=windows.parse(text),
        interactive=parent.interactive if body.priority is None else body.priority == "interactive",
        on_invalid_line=parent.on_invalid_line,
        output_expires_after=parent.output_expires_after,
        output_prefix=locations.of_retry(parent.output_prefix),
        webhook_url=body.webhook_url or parent.webhook_url,
        metadata=body.metadata if "metadata" in body.model_fields_set else parent.metadata_,
        retry_of=parent.id,
    )


def _id(name: str) -> UUID:
    return row_id(_PREFIX, name, param="batch_id")
