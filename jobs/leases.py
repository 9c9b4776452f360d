"""The writes that move a shard: claim, take alone, complete, hand back, set aside.

A lease is the right to work on one shard while its owner's beat goes on.  `attempt` is its fencing
token: a claim raises it, and every later write names it, so a worker whose lease has passed on
changes nothing, however late it wakes.  The database's clock is the only clock.  This file knows
nothing of engines, S3 or what a shard's lines say; rescue, the write of the sweeper, is in
jobs/rescue.py.
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session
from sqlalchemy.types import Text

from jobs import metrics
from jobs.errors import LeaseLost
from jobs.models import JobKind
from jobs.workers import Held


@dataclass(frozen=True, slots=True)
class ShardLease:
    """A claimed shard and what its runner must know.

    `fresh`: none of its rows can have a result, for nobody claimed them before and planning refused
    no line of the file.
    `followers`: lines of other shards near the head of the line that begin with the same prefix.
    """

    shard_id: int
    attempt: int
    owner: UUID
    job_id: UUID
    tenant_id: UUID
    kind: JobKind
    endpoint: str
    model: str
    interactive: bool
    solo: bool
    cost: int
    prefix_key: str | None
    input_key: str | None
    input_sha256: str | None
    inline: str | None
    first_line: int
    end_line: int
    fresh: bool
    followers: int = 0

    @property
    def held(self) -> Held:
        return Held(self.shard_id, self.attempt)


# MATERIALIZED, so that rows are picked and locked once: the planner may run a plain subquery again
# and update more rows than its limit.  `head` is the line.  `line` takes from it what fits the
# room, resident prefixes first, and a solo shard only by itself.  The lowest stamp of bulk goes
# whatever its cost, so that a huge shard cannot starve; interactive work goes whatever the room.
CLAIM = text("""
    WITH head AS MATERIALIZED (
        SELECT id, interactive, stamp, cost, solo, prefix_key, end_line - first_line AS num_lines,
               coalesce(prefix_key = ANY(:resident), false) AS warm
          FROM shards
         WHERE model = :model AND state = 'queued' AND NOT paused AND not_before <= now()
           AND EXISTS (SELECT 1 FROM workers w
                        WHERE w.incarnation = :me AND w.beat_until > now() AND NOT w.draining)
         ORDER BY interactive DESC, stamp, id
         LIMIT 64
           FOR UPDATE SKIP LOCKED
    ),
    line AS (
        SELECT id
          FROM (SELECT id, interactive, solo,
                       row_number() OVER w AS place,
                       sum(cost) OVER w AS upto,
                       first_value(solo) OVER w AS solo_first
                  FROM head
                WINDOW w AS (ORDER BY interactive DESC, warm DESC, stamp, id)) q
         WHERE (interactive OR :room > 0)
           AND (place = 1 OR NOT (solo OR solo_first) AND (interactive OR upto <= :room))
    )
    UPDATE shards s
       SET state = 'leased', owner = :me, attempt = s.attempt + 1
      FROM line, jobs j
     WHERE s.id = line.id AND j.id = s.job_id
    RETURNING s.id AS shard_id, s.attempt, s.owner, s.job_id, j.tenant_id, j.kind, j.endpoint,
              s.model, s.interactive, s.solo, s.cost, s.prefix_key, s.input_key, s.input_sha256,
              s.inline, s.first_line, s.end_line,
              s.attempt = 1 AND NOT s.solo AND j.errors IS NULL AS fresh,
              (SELECT coalesce(sum(h.num_lines), 0)::int
                 FROM head h
                WHERE h.prefix_key = s.prefix_key
                  AND h.id NOT IN (SELECT id FROM line)) AS followers
""").bindparams(bindparam("resident", type_=ARRAY(Text)))

# Straight after a bulk load the statistics are old, and the planner would sort a million queued
# rows rather than walk the index.
PIN_PLAN = text("SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off")

_FENCE = """
 WHERE id = :shard_id AND state = 'leased' AND owner = :owner AND attempt = :attempt
RETURNING id
"""

_HOLD = text("""
    SELECT id FROM shards
     WHERE id = :shard_id AND state = 'leased' AND owner = :owner AND attempt = :attempt
       FOR UPDATE
""")
_ALONE = text("UPDATE shards SET alone = true" + _FENCE)
_COMPLETE = text("UPDATE shards SET state = 'done', owner = NULL" + _FENCE)

# FOR SHARE of the job first (locks go in the order jobs, shards): a cancel that commits in between
# would leave a queued shard in a stopping job.  Who had it did not find its input damaged: if the
# next one does, its hour begins anew.
_JOB_STATE = text("SELECT state FROM jobs WHERE id = :job_id FOR SHARE")
_HAND_BACK = text(
    """
    UPDATE shards
       SET state = CASE WHEN :running THEN 'queued' ELSE 'cancelled' END::shard_state,
           owner = NULL, alone = false, not_before = now() + :after, damaged_since = NULL
"""
    + _FENCE
)

# A job whose every shard is done and some of whose rows have no result is told of them by its
# finalizer, which has then waited for long enough (see jobs/lost_results.py).
_SET_ASIDE = text(
    """
    UPDATE shards
       SET state = CASE WHEN NOT :running THEN 'cancelled'
                        WHEN damaged_since < now() - interval '1 hour' THEN 'done'
                        ELSE 'queued' END::shard_state,
           owner = NULL, alone = false, not_before = now() + :after,
           damaged_since = coalesce(damaged_since, now())
"""
    + _FENCE
)
_LOCK_JOB = text("SELECT state FROM jobs WHERE id = :job_id FOR NO KEY UPDATE")
_NOTE_DAMAGE = text("""
    UPDATE jobs SET damaged_since = least(jobs.damaged_since, s.damaged_since)
      FROM shards s WHERE s.id = :shard_id AND s.state = 'done' AND jobs.id = s.job_id
""")
_JOB_OF = text("SELECT job_id FROM shards WHERE id = :shard_id")


def claim(
    session: Session, me: UUID, *, model: str, room: int, resident: list[str]
) -> list[ShardLease]:
    """Lease the next shards in line that fit `room` tokens.  Callers never share a shard."""
    session.execute(PIN_PLAN)
    values = {"me": me, "model": model, "room": room, "resident": resident}
    return [
        ShardLease(**{**row, "kind": JobKind(row["kind"])})
        for row in session.execute(CLAIM, values).mappings()
    ]


def hold(session: Session, lease: ShardLease) -> None:
    """Lock the shard's row to the end of the transaction.  Raises LeaseLost."""
    _fenced(session, lease, _HOLD)


def take_alone(session: Session, lease: ShardLease) -> None:
    """Say that the shard now has the engine to itself: a death is its own.  Raises LeaseLost."""
    _fenced(session, lease, _ALONE)


def complete(session: Session, lease: ShardLease) -> None:
    """Every line of the shard has its result.  Raises LeaseLost."""
    _fenced(session, lease, _COMPLETE)


def hand_back(session: Session, held: Held, owner: UUID, *, after: timedelta) -> bool:
    """Give up a shard unfinished: queued again `after` a while, or cancelled with its job.

    False if the lease had passed on already.
    """
    job_id = session.scalar(_JOB_OF, {"shard_id": held.shard_id})
    state = session.scalar(_JOB_STATE, {"job_id": job_id})
    values = _fence(held, owner) | {"running": state == "in_progress", "after": after}
    return session.execute(_HAND_BACK, values).first() is not None


def set_aside(session: Session, held: Held, owner: UUID, *, after: timedelta) -> bool:
    """Give up a shard whose input is damaged: queued again `after` a while or cancelled with its
    job, and once it has been damaged for an hour done, without results.

    False if the lease had passed on already.
    """
    job_id = session.scalar(_JOB_OF, {"shard_id": held.shard_id})
    state = session.scalar(_LOCK_JOB, {"job_id": job_id})
    values = _fence(held, owner) | {"running": state == "in_progress", "after": after}
    if session.execute(_SET_ASIDE, values).first() is None:
        return False
    session.execute(_NOTE_DAMAGE, {"shard_id": held.shard_id})
    return True


def _fenced(session: Session, lease: ShardLease, write: TextClause) -> None:
    if session.execute(write, _fence(lease.held, lease.owner)).first() is None:
        metrics.STALE_COMMITS.inc()
        raise LeaseLost(f"shard {lease.shard_id}, attempt {lease.attempt}: the lease passed on")


def _fence(held: Held, owner: UUID) -> dict[str, object]:
    return {"shard_id": held.shard_id, "attempt": held.attempt, "owner": owner}
