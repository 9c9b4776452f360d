"""Worker incarnations: one row for each start of a process, kept alive by one beat.

Everything that a process holds names its incarnation as owner, so one beat renews it all and one
missed `beat_until` gives it all back.  An incarnation is never used again once its beat has lapsed.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, INTEGER, JSONB
from sqlalchemy.orm import Session

from jobs.models import WorkerKind


@dataclass(frozen=True, slots=True)
class Identity:
    incarnation: UUID
    kind: WorkerKind
    model: str | None
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Held:
    """One shard at one attempt."""

    shard_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class BeatReply:
    """What a worker must do about shards.  `stop`: abort them, for they are lost or their job is
    stopping.  `unknown`: leased to it, but it does not know them."""

    stop: list[Held]
    unknown: list[Held]


_ADD_MODEL = text("INSERT INTO models (name) VALUES (:name) ON CONFLICT DO NOTHING")

_REGISTER = text("""
    INSERT INTO workers (incarnation, kind, model, host, pid, beat_until)
    VALUES (:incarnation, :kind, :model, :host, :pid, now() + :ttl)
""")

# No row back: a rescue has been here, or will be.  All that the incarnation held is lost.
_BEAT = text("""
    UPDATE workers SET beat_until = now() + :ttl, progress = :progress, stats = :stats
     WHERE incarnation = :me AND beat_until > now()
    RETURNING 1
""").bindparams(bindparam("stats", type_=JSONB))

# A beat that a rescue overtakes can still return its row, so each held shard is compared too.
_COMPARE = text("""
    SELECT coalesce(held.id, leased.id) AS shard_id,
           coalesce(held.attempt, leased.attempt) AS attempt,
           held.id IS NULL AS unknown
      FROM (SELECT id, attempt, job_id FROM shards WHERE owner = :me AND state = 'leased') leased
      FULL JOIN unnest(:ids, :attempts) AS held (id, attempt)
           ON held.id = leased.id AND held.attempt = leased.attempt
      LEFT JOIN jobs ON jobs.id = leased.job_id
     WHERE held.id IS NULL OR leased.id IS NULL OR jobs.state <> 'in_progress'
""").bindparams(bindparam("ids", type_=ARRAY(BIGINT)), bindparam("attempts", type_=ARRAY(INTEGER)))

_IS_ALIVE = text("""
    SELECT 1 FROM workers WHERE pid = :pid AND NOT draining AND beat_until > now() LIMIT 1
""")

_DRAIN = text("UPDATE workers SET draining = true WHERE incarnation = :me")

_RETIRE = text("""
    UPDATE workers SET beat_until = least(beat_until, now()), resigned = :resigned
     WHERE incarnation = :me
""")

_BURY = text("""
    UPDATE workers SET beat_until = least(beat_until, now()), died = true
     WHERE host = :host AND pid = :pid AND NOT resigned
""")

_FORGET = text("""
    DELETE FROM workers
     WHERE incarnation IN (
        SELECT incarnation FROM workers w
         WHERE beat_until < now() - :age
           AND NOT EXISTS (SELECT 1 FROM shards WHERE owner = w.incarnation)
           AND NOT EXISTS (SELECT 1 FROM jobs WHERE owner = w.incarnation)
           AND NOT EXISTS (SELECT 1 FROM deliveries WHERE owner = w.incarnation)
         LIMIT 100)
""")


def add_model(session: Session, name: str) -> None:
    """Let jobs name this model from now on."""
    session.execute(_ADD_MODEL, {"name": name})


def register(session: Session, identity: Identity, *, ttl: timedelta) -> None:
    """Begin an incarnation; it lives for `ttl` from now, and from each beat."""
    if identity.model is not None:
        add_model(session, identity.model)
    session.execute(
        _REGISTER,
        {
            "incarnation": identity.incarnation,
            "kind": identity.kind,
            "model": identity.model,
            "host": identity.host,
            "pid": identity.pid,
            "ttl": ttl,
        },
    )


def beat(
    session: Session, me: UUID, *, ttl: timedelta, progress: int, stats: dict[str, Any]
) -> bool:
    """Renew all that `me` holds.  False: the incarnation is over; begin another."""
    values = {"me": me, "ttl": ttl, "progress": progress, "stats": stats}
    return session.execute(_BEAT, values).first() is not None


def compare(session: Session, me: UUID, held: list[Held]) -> BeatReply:
    """Hold what a worker believes it has against what the database says."""
    values = {
        "me": me,
        "ids": [shard.shard_id for shard in held],
        "attempts": [shard.attempt for shard in held],
    }
    stop, unknown = list[Held](), list[Held]()
    for row in session.execute(_COMPARE, values):
        (unknown if row.unknown else stop).append(Held(row.shard_id, row.attempt))
    return BeatReply(stop, unknown)


def is_alive(session: Session, *, pid: int) -> bool:
    """Whether process `pid` of this machine has registered, beats, and takes work."""
    return session.execute(_IS_ALIVE, {"pid": pid}).first() is not None


def drain(session: Session, me: UUID) -> None:
    """Claim nothing more; the beats go on until the last shard has ended."""
    session.execute(_DRAIN, {"me": me})


def retire(session: Session, me: UUID, *, resigned: bool = True) -> None:
    """End the incarnation at once: what it still holds is rescued by the next sweep.  `resigned`:
    nobody is taken to have died of it."""
    session.execute(_RETIRE, {"me": me, "resigned": resigned})


def bury(session: Session, *, host: str, pid: int) -> None:
    """End the incarnations of a process that is known to be dead: what it held is rescued by the
    next sweep, not when its beat lapses, and counts as a death.  For whoever has collected its
    exit code."""
    session.execute(_BURY, {"host": host, "pid": pid})


def forget_dead(session: Session, *, age: timedelta) -> None:
    """Drop the rows of workers that died `age` ago and hold nothing, 100 at most."""
    session.execute(_FORGET, {"age": age})
