"""Puts rows where the system would have put them, so that there is something to see."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import func, text, update
from sqlalchemy.orm import Session

from jobs import keys, workers
from jobs.database import Sessions
from jobs.models import (
    TERMINAL_STATES,
    File,
    Job,
    JobKind,
    JobState,
    Segment,
    Shard,
    ShardState,
    Worker,
    WorkerKind,
)
from jobs.secrets import Secrets
from jobs.workers import Identity

TTL = timedelta(seconds=60)
MODEL = "tiny-llama"


class Scene:
    """One tenant's rows, added one by one, each committed at once."""

    def __init__(self, session: Session, secrets: Secrets) -> None:
        self._session = session
        self.tenant_name = f"tenant-{uuid.uuid4().hex}"
        self._tenant = keys.create_tenant(session, secrets, name=self.tenant_name)

    def key(self, *, admin: bool) -> str:
        return keys.create_key(self._session, tenant_id=self._tenant, name="a key", admin=admin)

    def worker(
        self,
        *,
        model: str | None = MODEL,
        host: str = "host-1",
        stats: dict[str, Any] | None = None,
        silent_for: timedelta = timedelta(0),
        draining: bool = False,
    ) -> UUID:
        """An inference worker, or with no model a control process; `silent_for` past its TTL."""
        me = uuid.uuid4()
        kind = WorkerKind.CONTROL if model is None else WorkerKind.INFERENCE
        workers.register(self._session, Identity(me, kind, model, host, 4711), ttl=TTL)
        workers.beat(self._session, me, ttl=TTL, progress=12, stats=stats or {})
        if draining:
            workers.drain(self._session, me)
        if silent_for:
            ended = func.now() - silent_for
            self._session.execute(
                update(Worker).where(Worker.incarnation == me).values(beat_until=ended)
            )
        return me

    def batch(
        self, *, state: JobState = JobState.IN_PROGRESS, total: int = 0, **values: Any
    ) -> UUID:
        """A batch created a minute ago; a terminal one ended just now."""
        workers.add_model(self._session, MODEL)
        file = File(
            tenant_id=self._tenant,
            filename="in.jsonl",
            purpose="batch",
            bytes=1,
            sha256="0" * 64,
            lines=total,
            storage_key="files/in",
        )
        self._session.add(file)
        self._session.flush()
        row = {
            "model": MODEL,
            "created_at": func.now() - timedelta(minutes=1),
            "finished_at": func.now() if state in TERMINAL_STATES else None,
        }
        job = Job(
            tenant_id=self._tenant,
            kind=JobKind.BATCH,
            state=state,
            endpoint="/v1/chat/completions",
            input_file_id=file.id,
            total=total,
            expires_at=func.now() + timedelta(days=1),
            **row | values,
        )
        self._session.add(job)
        self._session.flush()
        return job.id

    def shard(self, job: UUID, *, rows: int, owner: UUID | None = None, **values: Any) -> int:
        """A waiting shard, or with an owner a leased one."""
        shard = Shard(
            job_id=job,
            state=ShardState.QUEUED if owner is None else ShardState.LEASED,
            owner=owner,
            stamp=0.0,
            cost=rows,
            input_key="input",
            end_line=rows,
            **{"model": MODEL} | values,
        )
        self._session.add(shard)
        self._session.flush()
        return shard.id

    def shards(self, job: UUID, *, count: int) -> None:
        """Very many waiting shards of one row."""
        self._session.execute(
            text(
                "INSERT INTO shards (job_id, model, stamp, cost, input_key, end_line)"
                " SELECT :job, :model, n, 1, 'input', 1 FROM generate_series(1, :count) n"
            ),
            {"job": job, "model": MODEL, "count": count},
        )

    def segment(self, job: UUID, *, ok: int, failed: int = 0, shard: int | None = None) -> None:
        """Finished rows: 100 prompt tokens each of which 80 were cached, and 10 generated."""
        rows = ok + failed
        self._session.add(
            Segment(
                job_id=job,
                shard_id=shard,
                attempt=1,
                storage_key=f"segments/{uuid.uuid4().hex}",
                bytes=1,
                sha256="0" * 64,
                ok=ok,
                failed=failed,
                last_index=0,
                input_tokens=100 * rows,
                cached_tokens=80 * rows,
                output_tokens=10 * rows,
            )
        )
        self._session.flush()


@contextmanager
def open_scene(sessions: Sessions, secrets: Secrets) -> Iterator[Scene]:
    with sessions() as session:
        session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        yield Scene(session, secrets)
