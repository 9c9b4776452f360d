"""Results that were answered and that S3 does not give back: error lines take their place.

`results` and `segments` are append-only but for this: a segment whose object is not what was
written names lines that nobody can read.  Its rows get results of another segment, which say so and
count as failed.  So do those of rows that have none although every shard is done: a shard's input
was cut short.  Only the finalizer does it, under its lease, when no worker writes any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import job_leases, results
from jobs.database import Sessions
from jobs.finishing import FinalizeLease
from jobs.models import JobState
from jobs.results import SegmentDraft
from jobs.segment_objects import SegmentObject

_PAGE = 1000  # segments
_ROWS_AT_ONCE = 20_000  # as many as one statement inserts


@dataclass(frozen=True, slots=True)
class LostRow:
    index: int
    custom_id: str | None


_SEGMENTS = text("""
    SELECT id, storage_key, bytes, sha256 FROM segments
     WHERE job_id = :job_id AND id > :after
     ORDER BY id LIMIT :page
""")

_ROWS = text("""
    SELECT q.index, q.custom_id
      FROM results r JOIN requests q ON q.job_id = r.job_id AND q.index = r.index
     WHERE r.job_id = :job_id AND r.segment_id = :segment_id
     ORDER BY q.index
""")

_MISSING = text("""
    SELECT q.index, q.custom_id FROM requests q
     WHERE q.job_id = :job_id
       AND NOT EXISTS (SELECT 1 FROM results WHERE job_id = q.job_id AND index = q.index)
     ORDER BY q.index LIMIT :most
""")

_ANY_SHARD = text("SELECT min(id) FROM shards WHERE job_id = :job_id")

_TAKE_OUT_ROWS = text("""
    DELETE FROM results WHERE job_id = :job_id AND segment_id = :segment_id
""")

_TAKE_OUT = text("""
    DELETE FROM segments WHERE job_id = :job_id AND id = :segment_id RETURNING shard_id, attempt
""")


def segments(sessions: Sessions, job_id: UUID) -> Iterator[tuple[int, SegmentObject]]:
    """Every segment of a job with its id, a page at a time."""
    after = 0
    while True:
        values = {"job_id": job_id, "after": after, "page": _PAGE}
        with sessions() as session:
            page = session.execute(_SEGMENTS, values).all()
        if not page:
            return
        after = page[-1].id
        yield from ((row[0], SegmentObject(*row[1:])) for row in page)


def rows_of(session: Session, job_id: UUID, segment_id: int) -> list[LostRow]:
    values = {"job_id": job_id, "segment_id": segment_id}
    return [LostRow(*row) for row in session.execute(_ROWS, values)]


def rows_without(session: Session, job_id: UUID) -> list[LostRow]:
    """Rows that have no result, some thousands at most."""
    values = {"job_id": job_id, "most": _ROWS_AT_ONCE}
    return [LostRow(*row) for row in session.execute(_MISSING, values)]


def add(session: Session, lease: FinalizeLease, addition: SegmentDraft) -> None:
    """Give rows that have none their results.  Whose they were nobody knows: they stand under a
    shard all the same, so that a retry runs them.  Raises LeaseLost."""
    job_leases.hold(session, lease, JobState.FINALIZING)
    shard_id = session.scalar(_ANY_SHARD, {"job_id": lease.job_id})
    results.put(session, lease.job_id, addition, shard_id=shard_id, attempt=lease.attempt)


def replace(
    session: Session, lease: FinalizeLease, segment_id: int, replacement: SegmentDraft
) -> None:
    """Put a segment in the place of another, under the same shard: a retry of the batch runs what
    has failed of a shard's.  Raises LeaseLost."""
    job_leases.hold(session, lease, JobState.FINALIZING)
    lost = {"job_id": lease.job_id, "segment_id": segment_id}
    session.execute(_TAKE_OUT_ROWS, lost)
    old = session.execute(_TAKE_OUT, lost).one()
    results.put(session, lease.job_id, replacement, shard_id=old.shard_id, attempt=old.attempt)
