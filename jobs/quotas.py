"""What a tenant may have at one time: queued requests and tokens, batches, bytes, calls a second.

Each is judged in the transaction that would add to it.  A tenant that has limits is locked
meanwhile, so that two admissions at once cannot both take the last of a quota; one that has none
pays one look at its row.  A job counts from its creation to its end, by what is stored on its row:
an estimate until its file is planned, and then what was found.
"""

import math
from dataclasses import asdict, dataclass
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from jobs.errors import OverQuota, QuotaExceeded, RateLimited, TokenLimitExceeded
from jobs.models import Tenant


@dataclass(frozen=True, slots=True)
class Limits:
    """None: as much as it likes."""

    queued_requests: int | None
    queued_tokens: int | None
    active_batches: int | None
    storage_bytes: int | None
    requests_per_second: float | None


@dataclass(frozen=True, slots=True)
class Load:
    """What open jobs count for."""

    requests: int
    tokens: int
    batches: int


@dataclass(frozen=True, slots=True)
class Usage:
    limits: Limits
    load: Load
    storage_bytes: int


_LIMITS = """
    SELECT max_queued_requests, max_queued_tokens, max_active_batches, max_storage_bytes,
           max_requests_per_second
      FROM tenants WHERE id = :tenant_id
"""

_READ = text(_LIMITS)

# Not FOR UPDATE, which every row that names the tenant would wait for.
_HOLD = text(_LIMITS + " FOR NO KEY UPDATE")

_LOAD = text("""
    SELECT coalesce(sum(reserved_requests), 0)::bigint AS requests,
           coalesce(sum(reserved_tokens), 0)::bigint AS tokens,
           count(*) FILTER (WHERE kind = 'batch') AS batches
      FROM jobs
     WHERE tenant_id = :tenant_id AND state NOT IN ('completed', 'failed', 'cancelled', 'expired')
       AND id <> :except_job
""")

# Files in a bucket of the tenant's own are not ours to count.
_STORED = text("""
    SELECT (SELECT coalesce(sum(bytes), 0) FROM files
             WHERE tenant_id = :tenant_id AND bucket IS NULL AND deleted_at IS NULL
               AND coalesce(expires_at > now(), true))::bigint
         + (SELECT coalesce(sum(p.bytes), 0)
              FROM uploads u JOIN upload_parts p ON p.upload_id = u.id
             WHERE u.tenant_id = :tenant_id AND u.state = 'pending'
               AND u.id <> :except_upload)::bigint
""")

_NOBODY = UUID(int=0)


def set_limits(session: Session, *, tenant_id: UUID, limits: Limits) -> None:
    values = {f"max_{name}": value for name, value in asdict(limits).items()}
    session.execute(update(Tenant).where(Tenant.id == tenant_id).values(values))


def read_limits(session: Session, *, tenant_id: UUID) -> Limits:
    return Limits(*session.execute(_READ, {"tenant_id": tenant_id}).one())


def read_usage(session: Session, *, tenant_id: UUID) -> Usage:
    return Usage(
        read_limits(session, tenant_id=tenant_id),
        _load(session, tenant_id, except_job=_NOBODY),
        _stored(session, tenant_id, except_upload=_NOBODY),
    )


def admit(session: Session, *, tenant_id: UUID, adds: Load) -> None:
    """Let a job be added, or raise OverQuota or TokenLimitExceeded."""
    limits = _held(session, tenant_id)
    if limits is not None:
        _check_load(limits, _load(session, tenant_id, except_job=_NOBODY), adds)


def admit_planned(session: Session, *, tenant_id: UUID, job_id: UUID, tokens: int) -> None:
    """Let a batch start that was admitted by an estimate.  Raises TokenLimitExceeded."""
    limits = _held(session, tenant_id)
    if limits is not None:
        _check_tokens(limits, _load(session, tenant_id, except_job=job_id), tokens)


def admit_bytes(
    session: Session, *, tenant_id: UUID, size: int, composed_from: UUID | None = None
) -> None:
    """Let an object be added to our bucket, or raise OverQuota.

    `composed_from` is the upload whose parts the object replaces.
    """
    limits = _held(session, tenant_id)
    if limits is None or limits.storage_bytes is None:
        return
    stored = _stored(session, tenant_id, except_upload=composed_from or _NOBODY)
    _check(
        OverQuota,
        stored + size,
        limits.storage_bytes,
        "bytes of files. Delete some, or let them expire",
    )


def _held(session: Session, tenant_id: UUID) -> Limits | None:
    """The tenant's limits, of which none can be used up meanwhile; None if it has none."""
    limits = read_limits(session, tenant_id=tenant_id)
    if limits == Limits(None, None, None, None, limits.requests_per_second):
        return None
    return Limits(*session.execute(_HOLD, {"tenant_id": tenant_id}).one())


def _load(session: Session, tenant_id: UUID, *, except_job: UUID) -> Load:
    values = {"tenant_id": tenant_id, "except_job": except_job}
    return Load(*session.execute(_LOAD, values).one())


def _stored(session: Session, tenant_id: UUID, *, except_upload: UUID) -> int:
    values = {"tenant_id": tenant_id, "except_upload": except_upload}
    return int(session.scalars(_STORED, values).one())


def _check_load(limits: Limits, load: Load, adds: Load) -> None:
    requests = "queued requests. Wait until some have ended, or send less"
    batches = "active batches. Wait until one has ended"
    _check(OverQuota, load.requests + adds.requests, limits.queued_requests, requests)
    if adds.batches:
        _check(OverQuota, load.batches + adds.batches, limits.active_batches, batches)
    _check_tokens(limits, load, adds.tokens)


def _check_tokens(limits: Limits, load: Load, tokens: int) -> None:
    words = "queued tokens. Wait until some work has ended, or send less"
    _check(TokenLimitExceeded, load.tokens + tokens, limits.queued_tokens, words)


def _check(kind: type[QuotaExceeded], wanted: int, limit: int | None, words: str) -> None:
    if limit is not None and wanted > limit:
        raise kind(f"With this there would be {wanted:,} of at most {limit:,} {words}.")


# A bucket that holds a second's worth.  The clock is read as the row is locked: a transaction's
# own time would be that before the wait.
_TAKE_TURN = text("""
    INSERT INTO rate_buckets AS b (tenant_id, level, filled_at)
    VALUES (:tenant_id, greatest(:rate, 1) - 1, clock_timestamp())
        ON CONFLICT (tenant_id) DO UPDATE
           SET level = least(greatest(:rate, 1), b.level + :rate
                             * extract(epoch FROM clock_timestamp() - b.filled_at)) - 1,
               filled_at = clock_timestamp()
         WHERE b.level + :rate * extract(epoch FROM clock_timestamp() - b.filled_at) >= 1
    RETURNING 1
""")


def take_turn(session: Session, *, tenant_id: UUID, rate: float) -> None:
    """Count one call of a tenant that may make `rate` a second.  Raises RateLimited."""
    values = {"tenant_id": tenant_id, "rate": rate}
    if session.execute(_TAKE_TURN, values).first() is None:
        wait = max(1, math.ceil(1 / rate))
        raise RateLimited(f"You may make {rate:g} calls a second. Wait {wait} s.", retry_after=wait)
