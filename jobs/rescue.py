"""What the sweeper gives back when a worker has died, and how it finds a request that kills.

Rescue goes by dead owner, never by how long something took.  A process's death fails every shard
that it held, so a death says little: from its second on a shard is `solo` and is run by itself.  A
death there is the shard's own doing.  It is `suspect`, and is halved until one line stands alone;
after two deaths alone that line is answered with `worker_lost`.

Not every lapsed beat is a death.  One that lapsed while nobody could reach the database says
nothing, nor does one whose process has resigned: it began another incarnation, or drained.  Their
shards are put back in line as they were.  A death that somebody saw is one at any time.
"""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.endpoints import DELETED
from jobs.events import DISABLED
from jobs.models import JobKind

WORKER_LOST = "worker_lost"
DEATHS_ALONE = 2  # of one line, before it is answered

_MOST_BACKOFF = timedelta(hours=1)  # of a job

# The row lock re-checks the newest version of the worker's row, so that a beat that commits
# meanwhile wins.  NO KEY, because an open claim's foreign key locks that row too; SKIP LOCKED on
# the shards, so that one stuck flush does not block the sweep; FOR SHARE OF the job, because a
# cancel that commits in between would leave a queued shard in a stopping job.
#
# The roll is called every few seconds as long as any sweeper reaches the database, so a long
# silence between two calls is a while in which no worker may have reached it either.  Of a beat
# that was good when that while began, and was last sent before it ended, nothing is concluded.
_RESCUE_SHARDS = text("""
    WITH roll AS MATERIALIZED (
        INSERT INTO roll_call AS r (called_at) VALUES (now())
            ON CONFLICT (id) DO UPDATE
               SET called_at = greatest(r.called_at, now()),
                   away_from = CASE WHEN r.called_at < now() - :silence THEN r.called_at
                                    ELSE r.away_from END,
                   away_until = CASE WHEN r.called_at < now() - :silence THEN now()
                                     ELSE r.away_until END
        RETURNING away_from, away_until
    ),
    dead AS MATERIALIZED (
        SELECT incarnation, beat_until, resigned, died
          FROM workers WHERE beat_until < now() FOR NO KEY UPDATE SKIP LOCKED
    ),
    held AS MATERIALIZED (
        SELECT s.id, j.state AS job,
               NOT dead.resigned
               AND (dead.died
                    OR coalesce(dead.beat_until NOT BETWEEN roll.away_from
                                                        AND roll.away_until + :ttl, true)) AS died
          FROM roll, shards s
          JOIN dead ON s.owner = dead.incarnation
          JOIN jobs j ON j.id = s.job_id
         WHERE s.state = 'leased'
           FOR SHARE OF j SKIP LOCKED
           FOR UPDATE OF s SKIP LOCKED
    )
    UPDATE shards s
       SET owner = NULL,
           alone = false,
           damaged_since = NULL,
           crashes = crashes + held.died::int,
           solo = solo OR crashes + held.died::int >= 2,
           deaths_alone = deaths_alone + (alone AND held.died)::int,
           not_before = CASE WHEN held.died AND NOT alone
                             THEN now() + :backoff * least(power(2, crashes), 8)
                             ELSE now() END,
           state = CASE WHEN held.job <> 'in_progress' THEN 'cancelled'
                        WHEN alone AND held.died THEN 'suspect'
                        ELSE 'queued' END::shard_state
      FROM held
     WHERE s.id = held.id
    RETURNING held.died
""")

# The roll says nothing here: a planner that dies is often the one that would have called it.  SKIP
# LOCKED, for one that was frozen in the middle of a COPY holds its job's row for a minute.
_RELEASE_JOBS = text("""
    WITH dead AS MATERIALIZED (
        SELECT incarnation, NOT resigned AS died
          FROM workers WHERE beat_until < now() FOR NO KEY UPDATE SKIP LOCKED
    ),
    held AS MATERIALIZED (
        SELECT j.id, dead.died
          FROM dead JOIN jobs j ON j.owner = dead.incarnation
           FOR UPDATE OF j SKIP LOCKED
    )
    UPDATE jobs j
       SET owner = NULL,
           deaths = deaths + held.died::int,
           not_before = CASE WHEN held.died
                             THEN now() + least(:backoff * power(2, least(deaths, 20)), :most)
                             ELSE not_before END
      FROM held
     WHERE j.id = held.id
    RETURNING j.id
""")

# What an endpoint was to be told that has been disabled or deleted meanwhile is given up, as the
# rest was then (see jobs/endpoints.py).  FOR SHARE OF the endpoint, so that one that is just being
# disabled gives up what is released, or is seen as disabled here; SKIP LOCKED leaves it to the next
# round.
_RELEASE_DELIVERIES = text("""
    WITH dead AS MATERIALIZED (
        SELECT incarnation FROM workers WHERE beat_until < now() FOR NO KEY UPDATE SKIP LOCKED
    ),
    told AS MATERIALIZED (
        SELECT d.id, CASE WHEN w.deleted_at IS NOT NULL THEN CAST(:deleted AS text)
                          WHEN w.disabled_at IS NOT NULL AND NOT d.test THEN :disabled END
               AS why
          FROM dead
          JOIN deliveries d ON d.owner = dead.incarnation
          JOIN webhook_endpoints w ON w.id = d.endpoint_id
           FOR SHARE OF w SKIP LOCKED
           FOR UPDATE OF d SKIP LOCKED
    ),
    own AS MATERIALIZED (
        SELECT d.id, CAST(NULL AS text) AS why
          FROM dead JOIN deliveries d ON d.owner = dead.incarnation
         WHERE d.endpoint_id IS NULL
           FOR UPDATE OF d SKIP LOCKED
    )
    UPDATE deliveries d
       SET owner = NULL,
           state = CASE WHEN held.why IS NULL THEN d.state ELSE 'failed' END,
           last_error = coalesce(held.why, d.last_error)
      FROM (SELECT * FROM told UNION ALL SELECT * FROM own) held
     WHERE d.id = held.id
    RETURNING d.id
""")

_SUSPECTS = text("""
    SELECT s.id, s.job_id, j.tenant_id, j.kind, s.attempt, s.input_key, s.input_sha256, s.inline,
           s.first_line, s.end_line, s.deaths_alone
      FROM shards s JOIN jobs j ON j.id = s.job_id
     WHERE s.state = 'suspect' AND s.not_before <= now()
     ORDER BY s.not_before, s.id LIMIT 16
""")

_PUT_OFF = text("""
    UPDATE shards SET not_before = now() + :by WHERE id = :id AND state = 'suspect'
""")

# One of each pair of sweepers wins: the state is re-checked under the row's lock.
_SPLIT = text("""
    WITH job AS MATERIALIZED (
        SELECT id FROM jobs WHERE id = :job_id AND state = 'in_progress' FOR SHARE
    ),
    parent AS (
        UPDATE shards s SET state = 'split' FROM job
         WHERE s.id = :id AND s.job_id = job.id AND s.state = 'suspect'
        RETURNING s.*
    )
    INSERT INTO shards (job_id, model, interactive, paused, stamp, cost, prefix_key, input_key,
                        input_sha256, first_line, end_line, solo, crashes)
    SELECT job_id, model, interactive, paused, stamp, greatest(cost / 2, 1), prefix_key, input_key,
           input_sha256, half.first_line, half.end_line, true, crashes
      FROM parent,
           LATERAL (VALUES (first_line, (first_line + end_line) / 2),
                           ((first_line + end_line) / 2, end_line)) AS half (first_line, end_line)
    RETURNING id
""")

_TRY_AGAIN = text("""
    WITH job AS MATERIALIZED (
        SELECT id FROM jobs WHERE id = :job_id AND state = 'in_progress' FOR SHARE
    )
    UPDATE shards s SET state = 'queued', not_before = now() FROM job
     WHERE s.id = :id AND s.job_id = job.id AND s.state = 'suspect'
""")

_SETTLE = text("""
    UPDATE shards SET state = 'done' WHERE id = :id AND state = 'suspect' RETURNING id
""")

_CANCEL = text("""
    UPDATE shards s SET state = 'cancelled' FROM jobs j
     WHERE s.state = 'suspect' AND j.id = s.job_id AND j.state <> 'in_progress'
    RETURNING s.id
""")


@dataclass(frozen=True, slots=True)
class Rescued:
    """Shards put back in line: those whose worker died, and those whose worker may live."""

    died: int
    spared: int


@dataclass(frozen=True, slots=True)
class Suspect:
    """A shard whose worker died while the shard ran alone."""

    id: int
    job_id: UUID
    tenant_id: UUID
    kind: JobKind
    attempt: int
    input_key: str | None
    input_sha256: str | None
    inline: str | None
    first_line: int
    end_line: int
    deaths_alone: int

    @property
    def is_one_line(self) -> bool:
        return self.end_line - self.first_line == 1

    @property
    def is_guilty(self) -> bool:
        return self.is_one_line and self.deaths_alone >= DEATHS_ALONE


def rescue_shards(
    session: Session, *, ttl: timedelta, silence: timedelta, backoff: timedelta
) -> Rescued:
    """Call the roll, and put every shard of a worker that does not answer back in line.

    A shard waits `backoff`, and twice as long after each death up to eight times, so that one that
    kills does not meet every fresh worker before all else.  After a death alone it waits for
    nothing: each of those halves it, and all that shares a job with it waits for the last.

    `silence`: a longer one between two calls means that the database was away; shorter than `ttl`
    by more than a beat's interval.  Run it in a transaction of its own: `now()` is its start.
    """
    values = {"ttl": ttl, "silence": silence, "backoff": backoff}
    died = list(session.scalars(_RESCUE_SHARDS, values))
    return Rescued(died=sum(died), spared=len(died) - sum(died))


def release_jobs(session: Session, *, backoff: timedelta) -> int:
    """Free the jobs that a dead worker was planning or finalizing; their state stays.

    A job waits `backoff`, and twice as long after each death, an hour at most.
    """
    values = {"backoff": backoff, "most": _MOST_BACKOFF}
    return len(session.execute(_RELEASE_JOBS, values).all())


def release_deliveries(session: Session) -> int:
    """Free the webhooks that a dead worker was sending, or give them up with their endpoints."""
    why = {"deleted": DELETED, "disabled": DISABLED}
    return len(session.execute(_RELEASE_DELIVERIES, why).all())


def cancel_suspects(session: Session) -> int:
    """Nobody needs to know which line of a stopping job kills."""
    return len(session.execute(_CANCEL).all())


def suspects(session: Session) -> list[Suspect]:
    """The next to be settled, 16 at most."""
    rows = session.execute(_SUSPECTS).mappings()
    return [Suspect(**{**row, "kind": JobKind(row["kind"])}) for row in rows]


def put_off(session: Session, suspect: Suspect, *, by: timedelta) -> None:
    """Leave a suspect that cannot be settled now for later, behind all others."""
    session.execute(_PUT_OFF, {"id": suspect.id, "by": by})


def split(session: Session, suspect: Suspect) -> None:
    """Put two solo shards over the suspect's halves in its place."""
    session.execute(_SPLIT, {"id": suspect.id, "job_id": suspect.job_id})


def try_again(session: Session, suspect: Suspect) -> None:
    session.execute(_TRY_AGAIN, {"id": suspect.id, "job_id": suspect.job_id})


def settle(session: Session, suspect: Suspect) -> bool:
    """End a suspect whose line is answered.  False if another sweeper was first."""
    return session.execute(_SETTLE, {"id": suspect.id}).first() is not None
