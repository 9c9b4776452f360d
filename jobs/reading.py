"""What clients see of a job: its row, its live counts, its place in the line, its result.

Counts are summed over segments while a job runs and frozen on its row when it ends.  Every query
is bounded, and names the tenant or takes ids that came from one that did.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy import ColumnElement, select, text
from sqlalchemy.orm import Session

from jobs import paging, queue_places
from jobs.errors import ModelNotFound, NotFound
from jobs.model_names import no_such_model
from jobs.models import TERMINAL_STATES, Job, JobKind, Model, Result, Segment
from jobs.paging import Cursor
from jobs.queue_places import QueuePlace
from jobs.segment_objects import SegmentObject


@dataclass(frozen=True, slots=True)
class Counts:
    completed: int = 0
    failed: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ResultPlace:
    segment: SegmentObject
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class JobView:
    """`waiting`: some shard of it is queued.  `queue` is looked up for single jobs, not lists."""

    job: Job
    counts: Counts
    waiting: bool
    queue: QueuePlace | None = None
    result: ResultPlace | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    views: list[JobView]
    has_more: bool


def get_job(session: Session, *, tenant_id: UUID, kind: JobKind, job_id: UUID) -> JobView:
    job = session.scalar(select(Job).where(*_is_this(tenant_id, kind, job_id)))
    if job is None:
        raise NotFound(f"There is no {kind.noun} with this id.")
    (view,) = _views(session, [job])
    return replace(view, queue=_place(session, view), result=_result_place(session, job))


def has_ended(session: Session, *, tenant_id: UUID, kind: JobKind, job_id: UUID) -> bool:
    """All that a client who waits has to know at first.  Raises NotFound."""
    query = select(Job.finished_at.is_not(None)).where(*_is_this(tenant_id, kind, job_id))
    ended = session.scalar(query)
    if ended is None:
        raise NotFound(f"There is no {kind.noun} with this id.")
    return ended


def _is_this(tenant_id: UUID, kind: JobKind, job_id: UUID) -> list[ColumnElement[bool]]:
    return [
        Job.tenant_id == tenant_id,
        Job.kind == kind,
        Job.id == job_id,
        Job.deleted_at.is_(None),
    ]


def of_new(session: Session, job: Job) -> JobView:
    """The view of a job that this transaction has just made."""
    view = JobView(job, Counts(), waiting=job.kind is JobKind.REQUEST)
    return replace(view, queue=_place(session, view))


def _place(session: Session, view: JobView) -> QueuePlace | None:
    finished = view.counts.completed + view.counts.failed
    return queue_places.place_of(session, view.job, waiting=view.waiting, finished=finished)


def list_jobs(session: Session, *, tenant_id: UUID, kind: JobKind, cursor: Cursor) -> JobPage:
    owned = [Job.tenant_id == tenant_id, Job.kind == kind]
    page = paging.fetch(session, Job, cursor, owned=owned, shown=[Job.deleted_at.is_(None)])
    return JobPage(_views(session, page.rows), page.has_more)


_FINISHED = text("SELECT id FROM jobs WHERE id = ANY(:job_ids) AND finished_at IS NOT NULL")


def finished_among(session: Session, job_ids: Collection[UUID]) -> set[UUID]:
    """Those of the jobs that are terminal: one query for everyone who waits."""
    return set(session.scalars(_FINISHED, {"job_ids": list(job_ids)}))


def list_models(session: Session) -> Sequence[Model]:
    return session.scalars(select(Model).order_by(Model.name).limit(1000)).all()


def model_names(session: Session) -> list[str]:
    return [model.name for model in list_models(session)]


def get_model(session: Session, *, name: str) -> Model:
    """Raises ModelNotFound."""
    # No stored name has U+0000, and Postgres does not take it in a question either.
    model = None if "\x00" in name else session.get(Model, name)
    if model is None:
        raise ModelNotFound(no_such_model(name, model_names(session)), param="model")
    return model


_LIVE_COUNTS = text("""
    SELECT job_id, sum(ok)::bigint AS completed, sum(failed)::bigint AS failed,
           sum(input_tokens)::bigint AS input_tokens, sum(cached_tokens)::bigint AS cached_tokens,
           sum(output_tokens)::bigint AS output_tokens
      FROM segments WHERE job_id = ANY(:job_ids) GROUP BY job_id
""")

# Of thousands of shards the first says enough.
_WAITING = text("""
    SELECT asked.job_id FROM unnest(CAST(:job_ids AS uuid[])) AS asked (job_id)
     WHERE EXISTS (SELECT 1 FROM shards s WHERE s.job_id = asked.job_id AND s.state = 'queued')
""")


def _views(session: Session, jobs: Sequence[Job]) -> list[JobView]:
    open_ids = [job.id for job in jobs if job.state not in TERMINAL_STATES]
    live: dict[UUID, Counts] = {}
    waiting: set[UUID] = set()
    if open_ids:
        for row in session.execute(_LIVE_COUNTS, {"job_ids": open_ids}):
            live[row.job_id] = Counts(*row[1:])
        waiting = set(session.scalars(_WAITING, {"job_ids": open_ids}))
    return [
        JobView(
            job,
            _frozen(job) if job.state in TERMINAL_STATES else live.get(job.id, Counts()),
            waiting=job.id in waiting,
        )
        for job in jobs
    ]


def _frozen(job: Job) -> Counts:
    return Counts(job.completed, job.failed, job.input_tokens, job.cached_tokens, job.output_tokens)


def _result_place(session: Session, job: Job) -> ResultPlace | None:
    if job.kind is not JobKind.REQUEST or job.state not in TERMINAL_STATES:
        return None
    row = session.execute(
        select(Segment.storage_key, Segment.bytes, Segment.sha256, Result.start, Result.length)
        .join(Segment, Segment.id == Result.segment_id)
        .where(Result.job_id == job.id, Result.index == 0)
    ).first()
    return None if row is None else ResultPlace(SegmentObject(*row[:3]), row.start, row.length)
