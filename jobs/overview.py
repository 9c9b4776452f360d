"""What an operator sees: the queue, the workers and the batches of all tenants, at one instant.

Everything is counted from Postgres, by its clock, in one short read-only snapshot.  Every query is
bounded and walks a partial index, so looking costs the same however long the queue is.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.database import Sessions
from jobs.models import TERMINAL_STATES, JobState, WorkerKind

# Shards counted per model and priority; above it a queue is "at least" this long.
COUNTED_SHARDS = 50_000
LISTED_MODELS = 100
LISTED_WORKERS = 200
LISTED_BATCHES = 30  # open ones, and as many finished ones

# A snapshot that is held for longer would pin the queue's dead rows.
_BOUNDS = text("SET LOCAL statement_timeout = '4s'")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQueue:
    """The requests of one model and one priority, each counted in exactly one of three places.

    waiting: in shards that nobody holds.  A shard that was rescued counts whole again.
    claimed: held by a worker, not finished, and not in its engine's batch.
    running: in the engine's batch, as the workers' last beats say.
    oldest_seconds: how long the longest-waiting shard could have been claimed.
    """

    model: str
    interactive: bool
    waiting: int = 0
    claimed: int = 0
    running: int = 0
    counted_all: bool = True  # False: `waiting` is a lower bound
    oldest_seconds: float | None = None
    leases: int = 0
    workers: int = 0  # alive ones of this model

    @property
    def priority(self) -> str:
        return "interactive" if self.interactive else "bulk"

    @property
    def open(self) -> int:
        return self.waiting + self.claimed + self.running


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One process.  The numbers of its engine are those of its last beat; None: it sent none."""

    incarnation: UUID
    kind: WorkerKind
    model: str | None
    host: str
    pid: int
    alive: bool
    draining: bool
    beat_age: float  # seconds
    uptime: float  # seconds
    steps: int
    running: int | None
    waiting: int | None
    kv_blocks_used: int | None
    kv_blocks_total: int | None
    output_tokens_per_second: float | None
    prompt_tokens_per_second: float | None
    prefix_hit_rate: float | None  # over the last beat
    cached_tokens: int | None  # since its start, as is the next
    prefill_tokens_logical: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    id: UUID
    state: JobState
    model: str | None
    interactive: bool
    created_at: datetime
    elapsed: float  # seconds from its creation to its end, or to now
    total: int
    ok: int
    failed: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int

    @property
    def finished(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def progress(self) -> float:
        return min(1.0, (self.ok + self.failed) / self.total) if self.total else 0.0

    @property
    def prefix_hit_rate(self) -> float | None:
        return self.cached_tokens / self.input_tokens if self.input_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    at: datetime
    queues: tuple[ModelQueue, ...]
    workers: tuple[WorkerView, ...]
    batches: tuple[BatchView, ...]

    def alive(self, kind: WorkerKind) -> list[WorkerView]:
        return [worker for worker in self.workers if worker.alive and worker.kind is kind]

    @property
    def tokens_per_second(self) -> float:
        engines = self.alive(WorkerKind.INFERENCE)
        return sum(engine.output_tokens_per_second or 0.0 for engine in engines)

    @property
    def prefix_hit_rate(self) -> float | None:
        """The share of prompt tokens found in cache since the live workers started."""
        engines = self.alive(WorkerKind.INFERENCE)
        asked = sum(engine.prefill_tokens_logical or 0 for engine in engines)
        return sum(engine.cached_tokens or 0 for engine in engines) / asked if asked else None


def take(sessions: Sessions, *, beat_ttl: timedelta) -> Overview:
    """Look once.  `beat_ttl` is what the workers add to now() at each beat (LeaseSettings.ttl)."""
    with sessions() as session:
        session.connection(
            execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        )
        session.execute(_BOUNDS)
        workers = _workers(session, beat_ttl)
        return Overview(
            at=session.execute(text("SELECT now()")).scalar_one(),
            queues=tuple(_queues(session, workers)),
            workers=tuple(workers),
            batches=tuple(_batches(session)),
        )


# The index shards_line holds each queue in the order of its line, so the count stops early.
WAITING = text("""
    SELECT m.name AS model, p.interactive, q.shards, q.requests, q.oldest_seconds
      FROM (SELECT name FROM models ORDER BY name LIMIT :models) m
     CROSS JOIN (VALUES (true), (false)) p (interactive)
     CROSS JOIN LATERAL (
        SELECT count(*) AS shards,
               coalesce(sum(end_line - first_line), 0)::bigint AS requests,
               greatest(0, extract(epoch FROM now() - min(not_before)))::float8 AS oldest_seconds
          FROM (SELECT first_line, end_line, not_before
                  FROM shards
                 WHERE model = m.name AND interactive = p.interactive AND state = 'queued'
                 ORDER BY stamp, id
                 LIMIT :counted + 1) line
     ) q
     ORDER BY m.name, p.interactive DESC
""")

# What workers hold is bounded by what fits their engines.
HELD = text("""
    WITH held AS MATERIALIZED (
        SELECT id, job_id, model, interactive, owner, end_line - first_line AS requests
          FROM shards
         WHERE state = 'leased'
         LIMIT :counted
    ),
    finished AS (
        SELECT shard_id, sum(ok + failed) AS requests
          FROM segments
         WHERE job_id IN (SELECT job_id FROM held) AND shard_id IN (SELECT id FROM held)
         GROUP BY shard_id
    )
    SELECT held.model, held.interactive, held.owner, count(*) AS leases,
           sum(greatest(0, held.requests - coalesce(finished.requests, 0)))::bigint AS requests
      FROM held LEFT JOIN finished ON finished.shard_id = held.id
     GROUP BY held.model, held.interactive, held.owner
     ORDER BY held.owner, held.interactive DESC
""")

# A worker that ended as it should leaves at once; one that fell silent is shown for a minute.
WORKERS = text("""
    SELECT incarnation, kind, model, host, pid, draining, stats, progress AS steps,
           beat_until > now() AS alive,
           extract(epoch FROM now() - (beat_until - :beat_ttl))::float8 AS beat_age,
           extract(epoch FROM now() - started_at)::float8 AS uptime
      FROM workers
     WHERE beat_until > now()
        OR beat_until > now() - interval '1 minute' AND NOT draining
     ORDER BY kind DESC, model, started_at
     LIMIT :workers
""")

# Of an open batch the segments are summed; a finished one's totals are frozen on its row.
BATCHES = text("""
    WITH listed AS (
        (SELECT * FROM jobs WHERE kind = 'batch' AND finished_at IS NULL
          ORDER BY created_at LIMIT :batches)
        UNION ALL
        (SELECT * FROM jobs WHERE kind = 'batch' AND finished_at IS NOT NULL
          ORDER BY finished_at DESC LIMIT :batches)
    )
    SELECT j.id, j.state, j.model, j.interactive, j.created_at, j.total,
           extract(epoch FROM coalesce(j.finished_at, now()) - j.created_at)::float8 AS elapsed,
           coalesce(s.ok, j.completed)::bigint AS ok,
           coalesce(s.failed, j.failed)::bigint AS failed,
           coalesce(s.input_tokens, j.input_tokens)::bigint AS input_tokens,
           coalesce(s.cached_tokens, j.cached_tokens)::bigint AS cached_tokens,
           coalesce(s.output_tokens, j.output_tokens)::bigint AS output_tokens
      FROM listed j
      LEFT JOIN LATERAL (
        SELECT sum(ok) AS ok, sum(failed) AS failed, sum(input_tokens) AS input_tokens,
               sum(cached_tokens) AS cached_tokens, sum(output_tokens) AS output_tokens
          FROM segments WHERE job_id = j.id
      ) s ON j.finished_at IS NULL
     ORDER BY j.finished_at DESC NULLS FIRST, j.created_at
""")


def _queues(session: Session, workers: Sequence[WorkerView]) -> Iterator[ModelQueue]:
    alive = [worker for worker in workers if worker.alive]
    holding = _held(session, {worker.incarnation: worker.running or 0 for worker in alive})
    bounds = {"models": LISTED_MODELS, "counted": COUNTED_SHARDS}
    for row in session.execute(WAITING, bounds).mappings():
        held = holding.get((row["model"], row["interactive"]))
        yield replace(
            held or ModelQueue(model=row["model"], interactive=row["interactive"]),
            waiting=row["requests"],
            counted_all=row["shards"] <= COUNTED_SHARDS,
            oldest_seconds=row["oldest_seconds"],
            workers=sum(worker.model == row["model"] for worker in alive),
        )


def _held(
    session: Session, running_of: Mapping[UUID, int]
) -> Mapping[tuple[str, bool], ModelQueue]:
    """Part what workers hold into running and claimed, by model and priority.

    A worker reports one number for its whole batch.  Its interactive requests are run first, so
    they are the first to be counted as running; the rows come in that order.
    """
    queues: dict[tuple[str, bool], ModelQueue] = {}
    left = defaultdict(int, running_of)  # a dead owner runs nothing
    for row in session.execute(HELD, {"counted": COUNTED_SHARDS}).mappings():
        running = min(left[row["owner"]], row["requests"])
        left[row["owner"]] -= running
        key = row["model"], row["interactive"]
        queue = queues.get(key, ModelQueue(model=key[0], interactive=key[1]))
        queues[key] = replace(
            queue,
            running=queue.running + running,
            claimed=queue.claimed + row["requests"] - running,
            leases=queue.leases + row["leases"],
        )
    return queues


def _workers(session: Session, beat_ttl: timedelta) -> list[WorkerView]:
    rows = session.execute(WORKERS, {"beat_ttl": beat_ttl, "workers": LISTED_WORKERS}).mappings()
    return [_worker(dict(row)) for row in rows]


def _worker(row: dict[str, Any]) -> WorkerView:
    stats = row.pop("stats")
    return WorkerView(
        **row | {"kind": WorkerKind(row["kind"])},
        running=_count(stats, "running"),
        waiting=_count(stats, "waiting"),
        kv_blocks_used=_count(stats, "kv_blocks_used"),
        kv_blocks_total=_count(stats, "kv_blocks_total"),
        output_tokens_per_second=_number(stats, "output_tokens_per_second"),
        prompt_tokens_per_second=_number(stats, "prompt_tokens_per_second"),
        prefix_hit_rate=_number(stats, "prefix_hit_rate"),
        cached_tokens=_count(stats, "cached_tokens"),
        prefill_tokens_logical=_count(stats, "prefill_tokens_logical"),
    )


def _number(stats: Mapping[str, Any], name: str) -> float | None:
    """Stats come from another version's worker too: what is not a number is not known."""
    value = stats.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return max(0.0, float(value)) if known else None


def _count(stats: Mapping[str, Any], name: str) -> int | None:
    number = _number(stats, name)
    return None if number is None else int(number)


def _batches(session: Session) -> Iterator[BatchView]:
    for row in session.execute(BATCHES, {"batches": LISTED_BATCHES}).mappings():
        yield BatchView(**dict(row) | {"state": JobState(row["state"])})
