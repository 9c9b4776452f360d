"""Where an unfinished job stands: its place in the line, why it waits, when it should be through.

A batch that is being answered is judged by what it got in the last minute; what has not begun, by
the tokens ahead of it and what the workers of its model say they do in a second.
"""

import math
from dataclasses import dataclass

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from jobs.models import Job, JobKind, JobState

# How far down the line a place is counted.  Beyond it, "over 1,000" says enough.
MAX_PLACES = 1000


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """`position` 1 is next, 0 is under way.  `eta_seconds`, to the job's end, is None where there
    is nothing to judge by."""

    position: int
    eta_seconds: int | None
    reason: str


_FILES_AHEAD = text("""
    SELECT count(*) FROM (
        SELECT 1 FROM jobs
         WHERE kind = 'batch' AND state = 'queued' AND created_at < :created_at
         LIMIT :places) ahead
""")

# The head of the line is walked in its own order, so that the cost is bounded by :places, not by
# the number of shards that wait.
_SHARDS_AHEAD = text("""
    WITH mine AS (
        SELECT model, interactive, stamp, id FROM shards
         WHERE job_id = :job_id AND state = 'queued'
         ORDER BY interactive DESC, stamp, id LIMIT 1),
    head AS (
        SELECT s.interactive, s.stamp, s.id, s.cost FROM shards s
         WHERE s.model = :model AND s.state = 'queued' AND NOT s.paused
         ORDER BY s.interactive DESC, s.stamp, s.id LIMIT :places)
    SELECT count(head.id) AS shards, coalesce(sum(head.cost), 0)::bigint AS tokens
      FROM mine LEFT JOIN head
        ON (NOT head.interactive, head.stamp, head.id) < (NOT mine.interactive, mine.stamp, mine.id)
""")

_OPEN_COST = text("""
    SELECT coalesce(sum(cost), 0)::bigint FROM shards
     WHERE job_id = :job_id AND state IN ('queued', 'leased', 'suspect')
""")

_WORKERS = text("""
    SELECT count(*) AS alive,
           coalesce(sum((stats->>'output_tokens_per_second')::float
                        + (stats->>'prompt_tokens_per_second')::float), 0) AS tokens_per_second
      FROM workers
     WHERE kind = 'inference' AND model = :model AND beat_until > now() AND NOT draining
""")

_LAST_MINUTE = text("""
    SELECT coalesce(sum(s.ok + s.failed), 0)::bigint AS rows,
           greatest(1, least(60, extract(epoch FROM now() - min(j.in_progress_at))))::float8
               AS seconds
      FROM jobs j
      LEFT JOIN segments s ON s.job_id = j.id AND s.created_at > now() - interval '1 minute'
     WHERE j.id = :job_id
""")


def place_of(session: Session, job: Job, *, waiting: bool, finished: int) -> QueuePlace | None:
    """None where the job waits for no worker.  `waiting`: some shard of it is queued; `finished`:
    of its rows."""
    if job.paused:
        return QueuePlace(1, None, "paused")
    if job.state is JobState.QUEUED:
        return QueuePlace(_files_ahead(session, job) + 1, None, "waits for its file to be read")
    if job.state is not JobState.IN_PROGRESS or (job.kind is JobKind.REQUEST and not waiting):
        return None
    return _place_at_work(session, job, waiting=waiting, finished=finished)


def _files_ahead(session: Session, job: Job) -> int:
    values = {"created_at": job.created_at, "places": MAX_PLACES}
    return session.scalar(_FILES_AHEAD, values) or 0


def _seconds_left(session: Session, job: Job, finished: int) -> int | None:
    """By the rows of the last minute; None if there were none."""
    seen = session.execute(_LAST_MINUTE, {"job_id": job.id}).one()
    if seen.rows == 0:
        return None
    rows_per_second: float = seen.rows / seen.seconds
    return math.ceil((job.total - finished) / rows_per_second)


def _place_at_work(session: Session, job: Job, *, waiting: bool, finished: int) -> QueuePlace:
    ahead = _ahead(session, job) if waiting else None
    position = 0 if ahead is None else ahead.shards + 1
    workers = session.execute(_WORKERS, {"model": job.model}).one()
    if not workers.alive:  # what was done in the last minute says nothing of the next
        return QueuePlace(position, None, f"no worker for the model {job.model} is alive")
    eta = _seconds_left(session, job, finished) if job.kind is JobKind.BATCH else None
    if ahead is None:
        return QueuePlace(position, eta, "running")
    if eta is None and workers.tokens_per_second > 0 and ahead.shards < MAX_PLACES:
        own = session.scalar(_OPEN_COST, {"job_id": job.id}) or 0
        eta = math.ceil((ahead.tokens + own) / workers.tokens_per_second)
    return QueuePlace(position, eta, _why_waiting(ahead.shards))


def _ahead(session: Session, job: Job) -> Row[tuple[int, int]]:
    values = {"job_id": job.id, "model": job.model, "places": MAX_PLACES}
    return session.execute(_SHARDS_AHEAD, values).one()


def _why_waiting(shards_ahead: int) -> str:
    if shards_ahead == 0:
        return "next in line"
    if shards_ahead >= MAX_PLACES:
        return f"over {MAX_PLACES:,} shards of this model are ahead"
    return f"shards of this model that are ahead: {shards_ahead}"
