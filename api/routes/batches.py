"""`/v1/batches`: a file of requests, as OpenAI's clients send it."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Depends, Query, Response
from sqlalchemy.orm import Session

from api.answers import OneAnswer
from api.bodies import body_of, documented
from api.deps import AllServices, CurrentCaller, DbSession, after_id, row_id
from api.schemas.batches import BatchCreate, BatchObject
from api.schemas.given import ListOf
from api.schemas.sent import PageQuery
from jobs import finishing, ids, intake, locations, reading, tenants, webhook_urls, windows
from jobs.doorbell import CONTROL
from jobs.intake import NewBatch
from jobs.keys import Caller
from jobs.models import JobKind, OnInvalidLine
from jobs.paging import Cursor

router = APIRouter(prefix="/v1/batches", tags=["batches"])

_PREFIX = ids.JOB_PREFIX[JobKind.BATCH]


@router.post("", response_model=BatchObject, openapi_extra=documented(BatchCreate))
def create_batch(
    body: Annotated[BatchCreate, Depends(body_of(BatchCreate))],
    session: DbSession,
    once: OneAnswer,
    services: AllServices,
    background: BackgroundTasks,
) -> Response:
    """Accept a file of requests.

    The committed row is the promise: the bell only makes it start sooner, and the sweeper rings
    again for every row whose bell was lost.
    """
    new = _new(body, allow_private=services.allow_private_webhooks)
    tenant_id = once.caller.tenant_id

    def make() -> BatchObject:
        if new.output_prefix is not None:
            tenants.check_allowed(
                session,
                tenant_id=tenant_id,
                location=locations.parse_folder(new.output_prefix, param="output_prefix"),
                own_bucket=services.storage.bucket,
                param="output_prefix",
            )
        job = intake.create_batch(session, tenant_id=tenant_id, new=new)
        return BatchObject.of(reading.of_new(session, job))

    answer = once.answer(session, make, body=body.model_dump_json())
    background.add_task(services.doorbell.ring, CONTROL)  # after the commit
    return Response(answer, media_type="application/json")


@router.get("")
def list_batches(
    caller: CurrentCaller, session: DbSession, query: Annotated[PageQuery, Query()]
) -> ListOf[BatchObject]:
    """The newest first.  In a list `queue` is null; read a single batch for it."""
    cursor = Cursor(limit=query.limit, after=after_id(_PREFIX, query.after))
    page = reading.list_jobs(session, tenant_id=caller.tenant_id, kind=JobKind.BATCH, cursor=cursor)
    return ListOf.page([BatchObject.of(view) for view in page.views], has_more=page.has_more)


@router.get("/{batch_id}")
def read_batch(batch_id: str, caller: CurrentCaller, session: DbSession) -> BatchObject:
    return _read(session, caller, _id(batch_id))


@router.post("/{batch_id}/cancel")
def cancel_batch(
    batch_id: str,
    caller: CurrentCaller,
    session: DbSession,
    services: AllServices,
    background: BackgroundTasks,
) -> BatchObject:
    """Stop a batch.  What has finished is delivered, the rest is in its error file."""
    finishing.cancel(session, tenant_id=caller.tenant_id, job_id=_id(batch_id), kind=JobKind.BATCH)
    background.add_task(services.doorbell.ring, CONTROL)  # it may be finalized at once
    return _read(session, caller, _id(batch_id))


def _new(body: BatchCreate, *, allow_private: bool) -> NewBatch:
    if body.webhook_url is not None:
        webhook_urls.check(body.webhook_url, allow_private=allow_private)
    expiry = body.output_expires_after
    return NewBatch(
        endpoint=body.endpoint,
        input_file_id=row_id(ids.FILE, body.input_file_id, param="input_file_id"),
        completion_window=body.completion_window,
        expires_in=windows.parse(body.completion_window),
        interactive=body.priority == "interactive",
        on_invalid_line=OnInvalidLine(body.on_invalid_line),
        output_expires_after=None if expiry is None else expiry.seconds,
        output_prefix=_folder(body.output_prefix),
        webhook_url=body.webhook_url,
        metadata=body.metadata,
        reuse_from=_reuse_from(body),
    )


def _folder(output_prefix: str | None) -> str | None:
    """The prefix as it is stored, with a slash at its end."""
    if output_prefix is None:
        return None
    return str(locations.parse_folder(output_prefix, param="output_prefix"))


def _reuse_from(body: BatchCreate) -> UUID | None:
    if body.reuse_from is None:
        return None
    return row_id(_PREFIX, body.reuse_from, param="reuse_from")


def _read(session: Session, caller: Caller, batch_id: UUID) -> BatchObject:
    return BatchObject.of(
        reading.get_job(session, tenant_id=caller.tenant_id, kind=JobKind.BATCH, job_id=batch_id)
    )


def _id(name: str) -> UUID:
    return row_id(_PREFIX, name, param="batch_id")
