"""Does what a worker does to the rows, by the same functions, with answers of the test's own."""

import hashlib
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import text

from api.services import Services
from jobs import leases, lines, results, workers
from jobs.errors import BodyRefused
from jobs.leases import ShardLease
from jobs.lines import Answer, Choice
from jobs.models import WorkerKind
from jobs.results import Row, SegmentDraft
from jobs.workers import Identity


def register(services: Services, model: str) -> UUID:
    me = Identity(uuid4(), WorkerKind.INFERENCE, model, "test", 1)
    with services.sessions.begin() as session:
        workers.register(session, me, ttl=timedelta(seconds=60))
    return me.incarnation


def claim_one(services: Services, model: str) -> ShardLease:
    """The shard that is next in line."""
    me = register(services, model)
    with services.sessions.begin() as session:
        (lease,) = leases.claim(session, me, model=model, room=1, resident=[])
    return lease


def answer(services: Services, lease: ShardLease, text: str) -> None:
    """End a request's job with a completion of 5 tokens, of which 3 were cached."""
    given = Answer(
        (Choice(text, "stop"),), prompt_tokens=4, cached_tokens=3, output_tokens=1, created=1
    )
    body = lines.response_body(
        lease.job_id, 0, endpoint=lease.endpoint, model=lease.model, answer=given
    )
    _end(services, lease, lines.answered(lease.job_id, 0, custom_id=None, body=body), ok=True)


def refuse(services: Services, lease: ShardLease, error: BodyRefused) -> None:
    """End a request's job as the engine does that refuses its body."""
    line = lines.refused(lease.job_id, 0, custom_id=None, error=error)
    _end(services, lease, line, ok=False)


def end_unrun(services: Services, tenant_id: UUID, state: str) -> None:
    """All jobs of a tenant have ended so, and none has run."""
    ended = text(
        "UPDATE jobs SET state = CAST(:state AS job_state), finished_at = now()"
        " WHERE tenant_id = :tenant_id"
    )
    with services.sessions.begin() as session:
        session.execute(ended, {"state": state, "tenant_id": tenant_id})


def key_of(lease: ShardLease) -> str:
    """Where the result of a request's job lies."""
    return f"test/{lease.job_id.hex}"


def _end(services: Services, lease: ShardLease, line: bytes, *, ok: bool) -> None:
    key = key_of(lease)
    services.storage.put(key, line)
    segment = SegmentDraft(
        storage_key=key,
        bytes=len(line),
        sha256=hashlib.sha256(line).hexdigest(),
        rows=[Row(0, ok, 0, len(line), input_tokens=4, cached_tokens=3, output_tokens=1)],
    )
    with services.sessions.begin() as session:
        results.flush_request(session, lease, segment)
