"""The order of bulk work: start-time fair queueing, one virtual clock per model.

A tenant's shards are stamped when they are cut, so that workers decide nothing: the lowest stamp
goes first.  A tenant that was away starts at the queue's present time, one that is behind goes on
from where its own work ends; so a million rows of one delay another's ten by a shard a worker.
It is charged for its work when that is cut, and gets back what is cancelled or expires unrun.
Interactive shards go before all bulk, oldest first; quotas bound them.  A job whose deadline is in
danger leaves its place, once, for its tenant's urgent lane.  That begins at the queue's present
time and is served like a tenant of four times the weight: so a deadline takes from others no more
than that, however large the job, and nobody starves.

Source: Goyal, Vin and Cheng 1996, "Start-time Fair Queueing", sec. 2.
"""

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

_BYTES_PER_TOKEN = 4

_URGENCY = 4  # shares: in a quarter of its window a job gets, alone, what it would get in all of it


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run of shards enters the line, and how fast its tenant's virtual time passes."""

    stamp: float
    weight: float

    def after(self, cost: int) -> float:
        """The stamp of a shard that has `cost` of the same run before it."""
        return self.stamp + cost / self.weight


def cost_of(num_bytes: int, max_tokens: int) -> int:
    """A request's size in tokens, near enough for queues and quotas."""
    return num_bytes // _BYTES_PER_TOKEN + max_tokens


# The row lock on the model's clock makes stamping serial, so that two cuts of one tenant cannot
# start at the same place.
_CLOCK = text("""
    INSERT INTO fair_queues AS q (model) VALUES (:model)
        ON CONFLICT (model) DO UPDATE SET model = q.model
""")

_CLOCK_TIME = text("SELECT extract(epoch FROM clock_timestamp())::float8")

# A shard that waits to be tried again does not hold time up, and what is put back in line does not
# turn it back: whoever came then would be served before all who wait, for as long as that failed.
_TICK = text("""
    WITH line AS (
        SELECT stamp FROM shards
         WHERE model = :model AND state = 'queued' AND NOT paused AND NOT interactive
           AND not_before <= now()
         ORDER BY stamp LIMIT 1
    )
    UPDATE fair_queues SET present = greatest(present, (SELECT stamp FROM line))
     WHERE model = :model
    RETURNING CASE WHEN EXISTS (SELECT 1 FROM line) THEN present
                   ELSE greatest(present, highest_stamp) END
""")

_SHARE = text("""
    SELECT coalesce(s.last_finish, 0) AS last_finish,
           coalesce(s.last_hastened, 0) AS last_hastened, t.weight
      FROM tenants t LEFT JOIN fair_shares s ON s.tenant_id = t.id AND s.model = :model
     WHERE t.id = :tenant_id
""")

_KEEP = text("""
    INSERT INTO fair_shares (model, tenant_id, last_finish)
    VALUES (:model, :tenant_id, :last_finish)
        ON CONFLICT (model, tenant_id) DO UPDATE SET last_finish = excluded.last_finish
""")

_KEEP_LANE = text("""
    INSERT INTO fair_shares (model, tenant_id, last_hastened)
    VALUES (:model, :tenant_id, :last_hastened)
        ON CONFLICT (model, tenant_id) DO UPDATE SET last_hastened = excluded.last_hastened
""")

_REFUND = text("""
    UPDATE fair_shares s SET last_finish = s.last_finish - :cost / t.weight
      FROM tenants t
     WHERE s.model = :model AND s.tenant_id = :tenant_id AND t.id = s.tenant_id
""")

_ADVANCE = text("""
    UPDATE fair_queues SET highest_stamp = greatest(highest_stamp, :stamp) WHERE model = :model
""")


# In danger is the last quarter of a job's window, six hours at most.
_IN_DANGER = text("""
    SELECT id, model, tenant_id FROM jobs
     WHERE state = 'in_progress' AND NOT interactive AND NOT hastened AND NOT paused
       AND expires_at < now() + interval '6 hours'
       AND expires_at < now() + (expires_at - created_at) / 4
     ORDER BY expires_at LIMIT 20
       FOR NO KEY UPDATE SKIP LOCKED
""")

_PULL = text("""
    UPDATE shards s SET stamp = lane.stamp
      FROM (SELECT id,
                   :start + (sum(cost) OVER (ORDER BY stamp, id) - cost)::float8 / :weight AS stamp
              FROM shards
             WHERE job_id = :job_id AND state IN ('queued', 'leased', 'suspect')) lane
     WHERE s.id = lane.id AND s.stamp > lane.stamp
    RETURNING s.cost
""")

_HASTENED = text("UPDATE jobs SET hastened = true WHERE id = :job_id")


def place(*, now: float, last_finish: float, weight: float) -> Start:
    """Where a tenant's next run of shards begins."""
    return Start(max(now, last_finish), weight)


def reserve(
    session: Session, *, model: str, tenant_id: UUID, cost: int, interactive: bool
) -> Start:
    """Take a place in the line for shards that cost `cost` together."""
    if interactive:
        return Start(session.scalars(_CLOCK_TIME).one(), math.inf)
    now = virtual_time(session, model)  # from here on nobody else places work on this model
    same = {"model": model, "tenant_id": tenant_id}
    share = session.execute(_SHARE, same).one()
    start = place(now=now, last_finish=share.last_finish, weight=share.weight)
    session.execute(_KEEP, same | {"last_finish": start.after(cost)})
    session.execute(_ADVANCE, {"model": model, "stamp": start.after(cost)})
    return start


def refund(session: Session, model: str, tenant_id: UUID, cost: int) -> None:
    """Charge a tenant no more for bulk work that was cut and will never run."""
    session.execute(_CLOCK, {"model": model})
    session.execute(_REFUND, {"model": model, "tenant_id": tenant_id, "cost": cost})


def hasten(session: Session) -> int:
    """Pull the jobs whose deadline is in danger into their tenants' urgent lanes, 20 at most."""
    jobs = session.execute(_IN_DANGER).all()
    for job in sorted(jobs, key=attrgetter("model")):  # as others lock the models' clocks
        _pull(session, job.id, {"model": job.model, "tenant_id": job.tenant_id})
        session.execute(_HASTENED, {"job_id": job.id})
    return len(jobs)


def urgent_place(*, now: float, last_hastened: float, weight: float) -> Start:
    """Where a tenant's next job begins whose deadline is in danger."""
    return place(now=now, last_finish=last_hastened, weight=_URGENCY * weight)


def _pull(session: Session, job_id: UUID, same: dict[str, Any]) -> None:
    now = virtual_time(session, same["model"])
    share = session.execute(_SHARE, same).one()
    start = urgent_place(now=now, last_hastened=share.last_hastened, weight=share.weight)
    values = {"job_id": job_id, "start": start.stamp, "weight": start.weight}
    moved = session.scalars(_PULL, values).all()
    if moved:  # else it stands further ahead already
        session.execute(_KEEP_LANE, same | {"last_hastened": start.after(sum(moved))})


def virtual_time(session: Session, model: str) -> float:
    """The queue's present time, which stands still to the end of the transaction."""
    session.execute(_CLOCK, {"model": model})
    present: float = session.scalars(_TICK, {"model": model}).one()
    return present
