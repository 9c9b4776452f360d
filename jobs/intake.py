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

from jobs import earlier, fairness, files, quotas, reading
from jobs.errors import InvalidValue
from jobs.models import File, Job, JobKind, JobState, OnInvalidLine, Shard
from jobs.quotas import Load
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

    Raises BodyRefused or ModelNotFound: what can be judged now is not left to the worker; and
    QuotaExceeded.
    """
    body = _with_model(new)
    check_body(new.endpoint, body)
    reading.get_model(session, name=new.model)
    # ASCII: an escaped U+0000 may stand in a text column, a real one may not.
    line = json.dumps({"custom_id": None, "body": body}, ensure_ascii=True)
    cost = fairness.cost_of(len(line), expected_output_tokens(body))
    quotas.admit(session, tenant_id=tenant_id, adds=Load(requests=1, tokens=cost, batches=0))
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
            reserved_requests=1,
            reserved_tokens=cost,
        )
        .returning(Job)
    ).one()
    _add_shard(session, job, line, cost=cost)
    return job


def _add_shard(session: Session, job: Job, line: str, *, cost: int) -> None:
    assert job.model is not None  # as of every request's job
    start = fairness.reserve(
        session,
        model=job.model,
        tenant_id=job.tenant_id,
        cost=cost,
        interactive=job.interactive,
    )
    session.execute(
        insert(Shard).values(
            job_id=job.id,
            model=job.model,
            interactive=job.interactive,
            stamp=start.stamp,
            cost=cost,
            inline=line,
            end_line=1,
        )
    )


def create_batch(session: Session, *, tenant_id: UUID, new: NewBatch) -> Job:
    """Add the job; the control program reads its file.  Ring `control` after the commit.

    Raises NotFound, InvalidValue or QuotaExceeded.
    """
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
    adds = _estimate(session, file, new)
    quotas.admit(session, tenant_id=tenant_id, adds=adds)
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
            reserved_requests=adds.requests,
            reserved_tokens=adds.tokens,
        )
        .returning(Job)
    ).one()


def _estimate(session: Session, file: File, new: NewBatch) -> Load:
    """What the batch will count for, as far as it is known before its file is read: all of its
    lines, and the least that its prompts can be."""
    if new.retry_of is not None:
        parent = session.get_one(Job, new.retry_of)
        return Load(requests=parent.total - parent.completed, tokens=0, batches=1)
    tokens = 0 if new.reuse_from is not None else fairness.cost_of(file.bytes, 0)
    return Load(requests=file.lines, tokens=tokens, batches=1)


def _with_model(new: NewJob) -> dict[str, Any]:
    if new.body.get("model", new.model) != new.model:
        raise InvalidValue(
            "'body.model' differs from 'model'. Leave it out, or make them equal.",
            param="body.model",
        )
    return new.body | {"model": new.model}
