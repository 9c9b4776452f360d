"""The queue, by model and priority."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.overview.views import ModelQueue, WorkerView

# Shards counted per model and priority; above it a queue is "at least" this long.
COUNTED_SHARDS = 50_000
_LISTED_MODELS = 100

# The index shards_line holds each queue in the order of its line, so the count stops early.
_WAITING = text("""
    SELECT m.name AS model, p.interactive, q.shards, q.requests, q.oldest_seconds
      FROM (SELECT name FROM models ORDER BY name LIMIT :models) m
     CROSS JOIN (VALUES (true), (false)) p (interactive)
     CROSS JOIN LATERAL (
        SELECT count(*) AS shards,
               coalesce(sum(end_line - first_line), 0)::bigint AS requests,
               extract(epoch FROM now() - min(least(not_before, now())))::float8 AS oldest_seconds
          FROM (SELECT first_line, end_line, not_before
                  FROM shards
                 WHERE model = m.name AND interactive = p.interactive AND state = 'queued'
                   AND NOT paused
                 ORDER BY stamp, id
                 LIMIT :counted + 1) line
     ) q
     ORDER BY m.name, p.interactive DESC
""")

# What workers hold is bounded by what fits their engines.
_HELD = text("""
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


def count_queues(session: Session, workers: Sequence[WorkerView]) -> Iterator[ModelQueue]:
    alive = [worker for worker in workers if worker.alive]
    holding = _held(session, {worker.incarnation: worker.running or 0 for worker in alive})
    bounds = {"models": _LISTED_MODELS, "counted": COUNTED_SHARDS}
    for row in session.execute(_WAITING, bounds).mappings():
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
    for row in session.execute(_HELD, {"counted": COUNTED_SHARDS}).mappings():
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
