"""What the owner of a batch may change while it runs: priority, deadline, pausing, metadata.

A paused batch's shards stay queued but leave the index of the line, so that a claim never walks
past them; those that run are finished.  Locks go in the order jobs, shards.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import fairness
from jobs.errors import InvalidValue, NotAllowedNow, NotFound
from jobs.models import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """None leaves a thing as it is; empty metadata takes it away.

    Of `deadline` (unix seconds) and `window`, which counts from the batch's creation, one at most.
    """

    interactive: bool | None = None
    paused: bool | None = None
    deadline: int | None = None
    window: timedelta | None = None
    completion_window: str | None = None
    metadata: dict[str, str] | None = None

    @property
    def needs_running(self) -> bool:
        running = (self.interactive, self.paused, self.deadline, self.window)
        return any(value is not None for value in running)


_RUNNING = (JobState.QUEUED, JobState.VALIDATING, JobState.IN_PROGRESS)

_LOCK = text("""
    SELECT id, tenant_id, state, model, interactive, paused FROM jobs
     WHERE id = :job_id AND tenant_id = :tenant_id AND kind = 'batch' AND deleted_at IS NULL
       FOR UPDATE
""")

_DESCRIBE = text("""
    UPDATE jobs SET metadata = CAST(:metadata AS jsonb) WHERE id = :job_id
""")

_MOVE_DEADLINE = text("""
    UPDATE jobs
       SET expires_at = coalesce(to_timestamp(:deadline), created_at + CAST(:window AS interval)),
           completion_window = coalesce(:completion_window, completion_window)
     WHERE id = :job_id
    RETURNING expires_at > now()
""")

_PAUSE = text("UPDATE jobs SET paused = :paused WHERE id = :job_id")

_PAUSE_SHARDS = text("""
    UPDATE shards SET paused = :paused
     WHERE job_id = :job_id AND state IN ('queued', 'leased', 'suspect')
""")

_PRIORITIZE = text("UPDATE jobs SET interactive = :interactive WHERE id = :job_id")

_OPEN = text("""
    SELECT coalesce(sum(cost), 0)::bigint AS cost, min(stamp) AS first_stamp FROM shards
     WHERE job_id = :job_id AND state IN ('queued', 'leased', 'suspect')
""")

_RESTAMP = text("""
    WITH line AS (
        SELECT id, (sum(cost) OVER (ORDER BY stamp, id) - cost)::float8 AS before
          FROM shards
         WHERE job_id = :job_id AND state IN ('queued', 'leased', 'suspect')
    )
    UPDATE shards s
       SET interactive = :interactive, stamp = :stamp + line.before / CAST(:weight AS float8)
      FROM line
     WHERE s.id = line.id
""")

_SHIFT = text("""
    UPDATE shards SET stamp = stamp + :by
     WHERE job_id = :job_id AND state IN ('queued', 'leased', 'suspect')
""")


def change(session: Session, *, tenant_id: UUID, job_id: UUID, wanted: Change) -> None:
    """Make a change.  Raises NotFound, InvalidValue, or NotAllowedNow where the batch is ending."""
    job = session.execute(_LOCK, {"job_id": job_id, "tenant_id": tenant_id}).one_or_none()
    if job is None:
        raise NotFound("There is no batch with this id.")
    if wanted.needs_running and job.state not in _RUNNING:
        raise NotAllowedNow(f"This batch is {job.state}: only its metadata can be changed.")
    if wanted.metadata is not None:
        metadata = orjson.dumps(wanted.metadata).decode() if wanted.metadata else None
        session.execute(_DESCRIBE, {"job_id": job_id, "metadata": metadata})
    if wanted.deadline is not None or wanted.window is not None:
        _move_deadline(session, job_id, wanted)
    if wanted.paused is not None and wanted.paused != job.paused:
        _set_paused(session, job, wanted.paused)
    if wanted.interactive is not None and wanted.interactive != job.interactive:
        _set_priority(session, job, wanted.interactive)


def _move_deadline(session: Session, job_id: UUID, wanted: Change) -> None:
    ahead = session.scalar(
        _MOVE_DEADLINE,
        {
            "job_id": job_id,
            "deadline": wanted.deadline,
            "window": wanted.window,
            "completion_window": wanted.completion_window,
        },
    )
    if not ahead:
        raise InvalidValue(
            "The deadline has passed already. Cancel the batch if you want it to end.",
            param="deadline" if wanted.deadline is not None else "completion_window",
        )


def _set_paused(session: Session, job: Any, paused: bool) -> None:
    if not paused and job.model is not None and not job.interactive:
        _catch_up(session, job)
    session.execute(_PAUSE, {"job_id": job.id, "paused": paused})
    session.execute(_PAUSE_SHARDS, {"job_id": job.id, "paused": paused})


def _catch_up(session: Session, job: Any) -> None:
    """Move the shards up to the line's present time: a pause earns nobody a turn."""
    first = session.execute(_OPEN, {"job_id": job.id}).one().first_stamp
    if first is not None:
        behind = fairness.virtual_time(session, job.model) - first
        session.execute(_SHIFT, {"job_id": job.id, "by": max(0.0, behind)})


def _set_priority(session: Session, job: Any, interactive: bool) -> None:
    session.execute(_PRIORITIZE, {"job_id": job.id, "interactive": interactive})
    if job.model is None:
        return  # there are no shards yet: they are cut with the job's priority as it then is
    cost = session.execute(_OPEN, {"job_id": job.id}).one().cost
    start = fairness.reserve(
        session, model=job.model, tenant_id=job.tenant_id, cost=cost, interactive=interactive
    )
    values = {"interactive": interactive, "stamp": start.stamp, "weight": start.weight}
    session.execute(_RESTAMP, {"job_id": job.id} | values)
