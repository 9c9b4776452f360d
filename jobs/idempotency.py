"""One effect for one Idempotency-Key, however often and however concurrently it is sent.

The key's row is inserted first, in the transaction that does the work.  A second request with the
same key waits on that row's unique index until the first has committed, and then reads its answer;
if the first rolled back, the second is the first.  Keys are a tenant's own and are kept for a day.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.errors import IdempotencyConflict


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """`request_sha256` covers all that makes two requests the same: the route and the body."""

    tenant_id: UUID
    key: str
    request_sha256: str


_CLAIM = text("""
    INSERT INTO idempotency_keys AS k (tenant_id, key, request_sha256, response)
    VALUES (:tenant_id, :key, :request_sha256, '')
        ON CONFLICT (tenant_id, key) DO UPDATE
           SET request_sha256 = excluded.request_sha256, response = '', created_at = now()
         WHERE k.created_at < now() - interval '24 hours'
    RETURNING 1
""")

_FIRST_ANSWER = text("""
    SELECT request_sha256, response FROM idempotency_keys
     WHERE tenant_id = :tenant_id AND key = :key
""")

_KEEP = text("""
    UPDATE idempotency_keys SET response = :response WHERE tenant_id = :tenant_id AND key = :key
""")


def claim(session: Session, request: KeyedRequest) -> str | None:
    """Return the answer first given, or None: then do the work and `keep` its answer.

    Raises IdempotencyConflict if the key came with another request.
    """
    name = {"tenant_id": request.tenant_id, "key": request.key}
    claimed = session.execute(_CLAIM, name | {"request_sha256": request.request_sha256}).first()
    if claimed is not None:
        return None
    first = session.execute(_FIRST_ANSWER, name).one()
    if first.request_sha256 != request.request_sha256:
        raise IdempotencyConflict(
            "This Idempotency-Key came with another request. Send a new request under a new key.",
            param="Idempotency-Key",
        )
    return str(first.response)


def keep(session: Session, request: KeyedRequest, *, response: str) -> None:
    """Record the answer in the transaction that made it true."""
    name = {"tenant_id": request.tenant_id, "key": request.key}
    session.execute(_KEEP, name | {"response": response})
