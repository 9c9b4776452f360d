"""Batches that go on from an earlier one: those that retry its failed rows, or reuse its results.

The earlier batch is locked until the new one is there, so that it cannot be deleted in between;
deletion then waits until the new one is planned, and no longer: what it needs it has copied.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from jobs.errors import InvalidValue, NotAllowedNow, NotFound
from jobs.models import TERMINAL_STATES, Job, JobKind
from jobs.segment_objects import SegmentObject

# Rows that validation refused (their segment has no shard) would only be refused again.
_HAS_FAILED_ROWS = text("""
    SELECT EXISTS (SELECT 1 FROM segments
                    WHERE job_id = :job_id AND shard_id IS NOT NULL AND failed > 0)
""")


def to_retry(session: Session, *, tenant_id: UUID, job_id: UUID) -> Job:
    """The ended batch whose failed rows are to run again.  Raises NotFound or NotAllowedNow."""
    job = _locked(session, tenant_id, job_id, param="batch_id")
    if job.state not in TERMINAL_STATES:
        raise NotAllowedNow(f"This batch is {job.state}. Retry it once it has ended.")
    if job.in_progress_at is None:
        raise NotAllowedNow("None of its rows ever ran. Create a new batch from a sound file.")
    never_ran = job.total - job.completed - job.failed
    if not never_ran and not session.scalar(_HAS_FAILED_ROWS, {"job_id": job_id}):
        raise NotAllowedNow("Every row that could run has its result: there is nothing to retry.")
    return job


def check_reusable(session: Session, *, tenant_id: UUID, job_id: UUID, endpoint: str) -> None:
    """Raises NotFound, or InvalidValue where no row of the two batches could be equal."""
    job = _locked(session, tenant_id, job_id, param="reuse_from")
    if job.endpoint != endpoint:
        raise InvalidValue(f"That batch's endpoint is {job.endpoint}.", param="reuse_from")


_TO_RETRY = text("""
    SELECT q.index
      FROM requests q
      LEFT JOIN results r ON r.job_id = q.job_id AND r.index = q.index
      LEFT JOIN segments s ON s.id = r.segment_id
     WHERE q.job_id = :earlier AND q.index BETWEEN :first AND :last
       AND (r.index IS NULL OR NOT r.ok AND s.shard_id IS NOT NULL)
""")

# Fresh rows have no statistics, by which a nested loop over all of the earlier batch looks cheap.
_HASH_JOINS = text("SET LOCAL enable_nestloop = off")

_EQUAL_RESULTS = text("""
    SELECT q.index, r.start, r.length, s.storage_key, s.bytes, s.sha256
      FROM requests q
      JOIN requests e ON e.custom_id = q.custom_id AND e.body_digest = q.body_digest
      JOIN results r ON r.job_id = e.job_id AND r.index = e.index
      JOIN segments s ON s.id = r.segment_id
     WHERE q.job_id = :job_id AND q.index BETWEEN :first AND :last
       AND e.job_id = :earlier AND r.job_id = :earlier AND s.job_id = :earlier AND r.ok
     ORDER BY s.id, r.start
""")


@dataclass(frozen=True, slots=True)
class EqualResult:
    """The line of an earlier batch that answers the request `index` of a new one."""

    index: int
    start: int
    length: int
    segment: SegmentObject


def rows_to_retry(session: Session, earlier: UUID, *, first: int, last: int) -> set[int]:
    """Which of the rows from `first` to `last` have no good result, and may get one."""
    values = {"earlier": earlier, "first": first, "last": last}
    return set(session.scalars(_TO_RETRY, values))


def equal_results(
    session: Session, job_id: UUID, earlier: UUID, *, first: int, last: int
) -> list[EqualResult]:
    """The good results of an earlier batch for rows with the same custom_id and body, segment by
    segment."""
    session.execute(_HASH_JOINS)
    values = {"job_id": job_id, "earlier": earlier, "first": first, "last": last}
    found = session.execute(_EQUAL_RESULTS, values)
    return [
        EqualResult(index, start, length, SegmentObject(*segment))
        for index, start, length, *segment in found
    ]


def _locked(session: Session, tenant_id: UUID, job_id: UUID, *, param: str) -> Job:
    job = session.scalar(
        select(Job)
        .where(
            Job.id == job_id,
            Job.tenant_id == tenant_id,
            Job.kind == JobKind.BATCH,
            Job.deleted_at.is_(None),
        )
        .with_for_update(read=True)
    )
    if job is None:
        raise NotFound("There is no batch with this id.", param=param)
    return job
