"""Makes finished rows durable: the flush that counts what landed.

The segment's object is in S3 before, under a key that names shard and attempt.  The primary key of
`results` is the second guard behind the lease: a row that has a result never takes another.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import finishing, leases, rescue
from jobs.errors import LeaseLost
from jobs.leases import ShardLease
from jobs.models import JobKind
from jobs.rescue import Suspect


@dataclass(frozen=True, slots=True)
class Row:
    """Where one line lies in its segment, in bytes, and what it counts for, in tokens.  `ok`: it
    belongs in the output file."""

    index: int
    ok: bool
    start: int
    length: int
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SegmentDraft:
    """A segment whose object is in S3 and whose rows are not yet counted."""

    storage_key: str
    bytes: int
    sha256: str
    rows: list[Row]


_NEXT_ID = text("SELECT nextval(pg_get_serial_sequence('segments', 'id'))")

# The counts are of what landed.  If this COMMIT's answer is lost and it runs again, nothing lands
# and no second segment is made; if it runs again with more rows, those alone are counted.
_PUT = text("""
    WITH r AS MATERIALIZED (
        SELECT *
          FROM unnest(CAST(:indexes AS integer[]), CAST(:oks AS boolean[]),
                      CAST(:starts AS bigint[]), CAST(:lengths AS integer[]),
                      CAST(:inputs AS integer[]), CAST(:cacheds AS integer[]),
                      CAST(:outputs AS integer[]))
               AS r (index, ok, start, length, input, cached, output)
    ),
    put AS (
        INSERT INTO results (job_id, index, segment_id, ok, start, length)
        SELECT :job_id, r.index, :segment_id, r.ok, r.start, r.length FROM r
            ON CONFLICT DO NOTHING
        RETURNING index, start
    )
    INSERT INTO segments (id, job_id, shard_id, attempt, storage_key, bytes, sha256,
                          input_tokens, cached_tokens, output_tokens, ok, failed, last_index)
    SELECT :segment_id, :job_id, :shard_id, :attempt, :storage_key, :bytes, :sha256,
           sum(input), sum(cached), sum(output),
           count(*) FILTER (WHERE ok), count(*) FILTER (WHERE NOT ok), max(index)
      FROM put JOIN r USING (index, start)
    HAVING count(*) > 0
    RETURNING id
""")

_DONE = text("SELECT index FROM results WHERE job_id = :job_id AND index = ANY(:indexes)")


def finished(session: Session, job_id: UUID, indexes: list[int]) -> set[int]:
    """Which of these requests have a result already, so that nobody computes them again."""
    return set(session.scalars(_DONE, {"job_id": job_id, "indexes": indexes}))


def flush(session: Session, lease: ShardLease, segment: SegmentDraft) -> None:
    """Count a segment of a batch's shard.  Raises LeaseLost."""
    finishing.keep(session, lease.job_id)
    leases.hold(session, lease)
    put(session, lease.job_id, segment, shard_id=lease.shard_id, attempt=lease.attempt)


def flush_request(session: Session, lease: ShardLease, segment: SegmentDraft) -> None:
    """Record a single request's result, settle its shard and finish its job, all at once.

    Raises LeaseLost, also where the job is stopping.
    """
    finishing.hold_running(session, lease.job_id)
    leases.hold(session, lease)
    put(session, lease.job_id, segment, shard_id=lease.shard_id, attempt=lease.attempt)
    leases.complete(session, lease)
    finishing.finish_request(session, lease.job_id)


def put(
    session: Session, job_id: UUID, segment: SegmentDraft, *, shard_id: int | None, attempt: int
) -> None:
    """Insert the rows that have no result yet, and the segment if any landed.

    The caller holds the lease under which they were made.
    """
    rows = segment.rows
    session.execute(
        _PUT,
        {
            "segment_id": session.scalar(_NEXT_ID),
            "job_id": job_id,
            "shard_id": shard_id,
            "attempt": attempt,
            "storage_key": segment.storage_key,
            "bytes": segment.bytes,
            "sha256": segment.sha256,
            "indexes": _array(row.index for row in rows),
            "oks": _array(row.ok for row in rows),
            "starts": _array(row.start for row in rows),
            "lengths": _array(row.length for row in rows),
            "inputs": _array(row.input_tokens for row in rows),
            "cacheds": _array(row.cached_tokens for row in rows),
            "outputs": _array(row.output_tokens for row in rows),
        },
    )


def _array(values: Iterable[int]) -> str:
    """A Postgres array as text.  The driver would ask each element for its type, which takes ten
    times as long: a tenth of a worker's time."""
    return "{" + ",".join(map(str, values)) + "}"


def settle_unanswered(session: Session, suspect: Suspect) -> bool:
    """Settle a shard that kills its workers without a result: the finalizer says that it is lost.

    False if another sweeper has done it or the job is stopping.
    """
    try:
        finishing.hold_running(session, suspect.job_id)
    except LeaseLost:
        return False
    return rescue.settle(session, suspect)


def flush_lost(session: Session, suspect: Suspect, segment: SegmentDraft) -> None:
    """Answer the one line of a shard that kills its workers, and settle the shard.

    Changes nothing if another sweeper has done it or the job is stopping.
    """
    if not settle_unanswered(session, suspect):
        return
    put(session, suspect.job_id, segment, shard_id=suspect.id, attempt=suspect.attempt)
    if suspect.kind is JobKind.REQUEST:
        finishing.finish_request(session, suspect.job_id)
