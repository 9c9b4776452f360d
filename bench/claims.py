"""Claims from a long queue beside an old snapshot: `gristmill bench claims`.

A Postgres of its own holds so many queued shards.  A reader opens a snapshot and keeps it, so that
no row version that dies from then on can be cleared away; then workers claim and settle shards from
the head of the line, each of which leaves its dead index entry there for the next claim to pass.
"""

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, create_engine

from bench.errors import OutputIncomplete
from bench.quantiles import quantile
from cli.process import Process
from cli.servers.embedded import embedded
from jobs import files, intake, keys, leases, planning, reading, workers
from jobs.database import Sessions, connect, sessions_of
from jobs.files import NewFile
from jobs.intake import NewBatch
from jobs.models import WorkerKind
from jobs.planning import Plan, ShardDraft
from jobs.requests import CHAT_COMPLETIONS
from jobs.secrets import Secrets
from jobs.workers import Identity
from migrations import upgrade

_MODEL = "bench"
_SHARDS_A_BATCH = 100_000
_SHARDS_A_CLAIM = 4  # as many as its room holds
_LONG = timedelta(days=1)


def bench_claims(queued: int, settled: int, *, tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure, check, and return the figures.  Raises BenchFailed.

    settled: shards claimed and settled while the snapshot is open
    """
    tell("starting Postgres")
    with _database() as url:
        engine = connect(url)
        sessions = sessions_of(engine)
        fill_s = _fill(sessions, queued, tell=tell)
        with _old_snapshot(url):
            tell(f"settling {settled:,} shards beside an old snapshot")
            times = _run(sessions, settled)
        engine.dispose()
    tail = times[-max(1, len(times) // 10) :]
    return {
        "bench": "claims",
        "queued": queued,
        "settled": settled,
        "claims": len(times),
        "fill_s": round(fill_s, 1),
        "claim": _milliseconds(times),
        "claim_last_tenth": _milliseconds(tail),
    }


def _milliseconds(seconds: list[float]) -> dict[str, float]:
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    return {name: round(1e3 * quantile(seconds, share), 2) for name, share in shares.items()}


@contextmanager
def _database() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-") as folder:
        Path(folder).chmod(0o711)  # Postgres may run as somebody else
        postgres = embedded(Path(folder), durable=True).postgres
        process = Process(postgres.program())
        try:
            process.wait_ready()
            upgrade.upgrade(postgres.url)
            yield postgres.url
        finally:
            process.stop()


@contextmanager
def _old_snapshot(url: str) -> Iterator[None]:
    """A reader whom none of our limits ends."""
    reader: Engine = create_engine(url, isolation_level="REPEATABLE READ")
    with sessions_of(reader)() as session:
        reading.list_models(session)  # the first query takes the snapshot
        yield
    reader.dispose()


def _fill(sessions: Sessions, queued: int, *, tell: Callable[[str], None]) -> float:
    """Queue so many shards, as planners do.  Returns the seconds."""
    started = time.perf_counter()
    secrets = Secrets(Secrets.generate_key())
    with sessions.begin() as session:
        workers.add_model(session, _MODEL)
        tenant_id = keys.create_tenant(session, secrets, name="bench")
    planner = _register(sessions, WorkerKind.CONTROL)
    for at in range(0, queued, _SHARDS_A_BATCH):
        tell(f"queueing shards: {at:,} of {queued:,}")
        _queue_batch(sessions, tenant_id, planner, min(_SHARDS_A_BATCH, queued - at))
    with sessions.begin() as session:
        planning.analyze(session)
    return time.perf_counter() - started


def _queue_batch(sessions: Sessions, tenant_id: UUID, planner: UUID, shards: int) -> None:
    with sessions.begin() as session:
        file = files.add(session, _file_of(tenant_id))
        new = NewBatch(
            endpoint=CHAT_COMPLETIONS,
            input_file_id=file.id,
            completion_window="24h",
            expires_in=_LONG,
        )
        intake.create_batch(session, tenant_id=tenant_id, new=new)
    with sessions.begin() as session:
        lease = planning.claim(session, planner)
        assert lease is not None
    drafts = [ShardDraft("none", 1, 1, None)] * shards
    with sessions.begin() as session:
        planning.cut(session, lease, Plan(_MODEL, shards, drafts))


def _file_of(tenant_id: UUID) -> NewFile:
    return NewFile(
        id=uuid.uuid4(),
        tenant_id=tenant_id,
        filename="bench.jsonl",
        purpose=files.BATCH,
        bytes=1,
        sha256="",
        lines=1,
        storage_key="none",
    )


def _register(sessions: Sessions, kind: WorkerKind) -> UUID:
    me = uuid.uuid4()
    with sessions.begin() as session:
        workers.register(session, Identity(me, kind, _MODEL, "bench", 1), ttl=_LONG)
    return me


def _run(sessions: Sessions, settled: int) -> list[float]:
    """Seconds of each claim, COMMIT included."""
    me, times, done = _register(sessions, WorkerKind.INFERENCE), list[float](), 0
    while done < settled:
        started = time.perf_counter()
        with sessions.begin() as session:
            claimed = leases.claim(session, me, model=_MODEL, room=_SHARDS_A_CLAIM, resident=[])
        times.append(time.perf_counter() - started)
        if not claimed:
            raise OutputIncomplete(f"the queue was empty after {done:,} shards")
        with sessions.begin() as session:
            for lease in claimed:
                leases.complete(session, lease)
        done += len(claimed)
    return times
