"""Takes work in: the rows that make a job exist, in the caller's transaction.

Once that commits, the job survives anything; ringing for it afterwards only makes it start sooner.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs import earlier, fairness, files, reading
from jobs.errors import InvalidValue
from jobs.models import Job, JobKind, JobState, OnInvalidLine, Shard
from jobs.requests import check_body, expected_output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """One request.  `model` is added to `body`, or must agree with it."""

    endpoint: str
    model: str
    body: dict[str, Any]
    interactive: bool
    expires_in: timedelta
    webhook_url: str | None = None
    metadata: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A file of requests.  `completion_window` is the client's text of `expires_in`."""

    endpoint: str
    input_file_id: UUID
    completion_window: str
    expires_in: timedelta
    interactive: bool = False
    on_invalid_line: OnInvalidLine = OnInvalidLine.FAIL
    output_expires_after: int | None = None  # seconds
    output_prefix: str | None = None  # see locations.of_result; None: our own bucket
    webhook_url: str | None = None
    metadata: dict[str, str] | None = None
    retry_of: UUID | None = None  # as `earlier.to_retry` gave it
    reuse_from: UUID | None = None


def create_request_job(session: Session, *, tenant_id: UUID, new: NewJob) -> Job:
    """Add the job and its one shard.  Ring the model's queue after the commit.

    Raises BodyRefused or ModelNotFound: what can be judged now is not left to the worker.
    """
    body = _with_model(new)
    check_body(new.endpoint, body)
    reading.get_model(session, name=new.model)
    job = session.scalars(
        insert(Job)
        .values(
            tenant_id=tenant_id,
            kind=JobKind.REQUEST,
            state=JobState.IN_PROGRESS,
            endpoint=new.endpoint,
            model=new.model,
            interactive=new.interactive,
            webhook_url=new.webhook_url,
            metadata_=new.metadata,
            in_progress_at=func.now(),
            expires_at=func.now() + new.expires_in,
            total=1,
        )
        .returning(Job)
    ).one()
    _add_shard(session, job, body)
    return job


def _add_shard(session: Session, job: Job, body: dict[str, Any]) -> None:
    # ASCII: an escaped U+0000 may stand in a text column, a real one may not.
    line = json.dumps({"custom_id": None, "body": body}, ensure_ascii=True)
    cost = fairness.cost_of(len(line), expected_output_tokens(body))
    start = fairness.reserve(
        session,
        model=body["model"],
        tenant_id=job.tenant_id,
        cost=cost,
        interactive=job.interactive,
    )
    session.execute(
        insert(Shard).values(
            job_id=job.id,
            model=body["model"],
            interactive=job.interactive,
            stamp=start.stamp,
            cost=cost,
            inline=line,
            end_line=1,
        )
    )


def create_batch(session: Session, *, tenant_id: UUID, new: NewBatch) -> Job:
    """Add the job; the control program reads its file.  Ring `control` after the commit."""
    file = files.get_for_use(session, tenant_id=tenant_id, file_id=new.input_file_id)
    if file.purpose != files.BATCH:
        raise InvalidValue(
            f"The file's purpose is '{file.purpose}'. Upload it with the purpose 'batch'.",
            param="input_file_id",
        )
    if new.reuse_from is not None:
        earlier.check_reusable(
            session, tenant_id=tenant_id, job_id=new.reuse_from, endpoint=new.endpoint
        )
    return session.scalars(
        insert(Job)
        .values(
            tenant_id=tenant_id,
            kind=JobKind.BATCH,
            state=JobState.QUEUED,
            endpoint=new.endpoint,
            interactive=new.interactive,
            input_file_id=file.id,
            retry_of=new.retry_of,
            reuse_from=new.reuse_from,
            on_invalid_line=new.on_invalid_line,
            completion_window=new.completion_window,
            output_expires_after=new.output_expires_after,
            output_prefix=new.output_prefix,
            webhook_url=new.webhook_url,
            metadata_=new.metadata,
            expires_at=func.now() + new.expires_in,
        )
        .returning(Job)
    ).one()


def _with_model(new: NewJob) -> dict[str, Any]:
    if new.body.get("model", new.model) != new.model:
        raise InvalidValue(
            "'body.model' differs from 'model'. Leave it out, or make them equal.",
            param="body.model",
        )
    return new.body | {"model": new.model}
