"""The order of bulk work: start-time fair queueing, one virtual clock per model.

A tenant's shards are stamped when they are cut, so that workers decide nothing: the lowest stamp
goes first.  A tenant that was away starts at the queue's present time, one that is behind goes on
from where its own work ends; so a million rows of one delay another's ten by a shard a worker.
Interactive shards go before all bulk, oldest first; quotas bound them.

Source: Goyal, Vin and Cheng 1996, "Start-time Fair Queueing", sec. 2.
"""

import math
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

_BYTES_PER_TOKEN = 4


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
    RETURNING highest_stamp
""")

_CLOCK_TIME = text("SELECT extract(epoch FROM clock_timestamp())::float8")

_LOWEST_QUEUED = text("""
    SELECT stamp FROM shards
     WHERE model = :model AND state = 'queued' AND NOT paused AND NOT interactive
     ORDER BY stamp LIMIT 1
""")

_RESERVE = text("""
    INSERT INTO fair_shares AS s (model, tenant_id, last_finish)
    SELECT :model, id, :now + :cost / weight FROM tenants WHERE id = :tenant_id
        ON CONFLICT (model, tenant_id) DO UPDATE
           SET last_finish = greatest(s.last_finish, :now) + excluded.last_finish - :now
    RETURNING last_finish, (SELECT weight FROM tenants WHERE id = :tenant_id) AS weight
""")

_ADVANCE = text("""
    UPDATE fair_queues SET highest_stamp = greatest(highest_stamp, :stamp) WHERE model = :model
""")


def reserve(
    session: Session, *, model: str, tenant_id: UUID, cost: int, interactive: bool
) -> Start:
    """Take a place in the line for shards that cost `cost` together."""
    if interactive:
        return Start(session.scalars(_CLOCK_TIME).one(), math.inf)
    now = virtual_time(session, model)
    share = session.execute(
        _RESERVE, {"model": model, "tenant_id": tenant_id, "now": now, "cost": float(cost)}
    ).one()
    start = Start(share.last_finish - cost / share.weight, share.weight)
    session.execute(_ADVANCE, {"model": model, "stamp": start.stamp})
    return start


def virtual_time(session: Session, model: str) -> float:
    """The queue's present time, which stands still to the end of the transaction."""
    highest: float = session.scalars(_CLOCK, {"model": model}).one()
    lowest = session.scalar(_LOWEST_QUEUED, {"model": model})
    return highest if lowest is None else lowest
