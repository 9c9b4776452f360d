"""Tenants and their API keys.

A key is `gm_<id>_<secret>`.  Only the hash of the secret is stored: it has 256 random bits, so a
plain SHA-256 cannot be searched.  A revoked or expired key is refused from its row's commit on; the
API may remember it a few seconds longer, see api/known_keys.py.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from secrets import choice
from string import ascii_letters, digits
from uuid import UUID

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.errors import InvalidValue, NotAuthenticated, NotFound
from jobs.models import ApiKey, Tenant
from jobs.secrets import Secrets, new_webhook_secret

_ALPHABET = ascii_letters + digits
_ID_LENGTH = 12
_SECRET_LENGTH = 43  # 256 bits in base 62
_KEY = re.compile(rf"gm_([0-9A-Za-z]{{{_ID_LENGTH}}})_([0-9A-Za-z]{{{_SECRET_LENGTH}}})")

# Compared with when there is no such key, so that its absence takes as long.
_NO_KEY = hashlib.sha256(b"").digest()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request.  `rate`: how many its tenant may send a second, if not any number."""

    tenant_id: UUID
    key_id: str
    admin: bool
    rate: float | None = None


def create_tenant(session: Session, secrets: Secrets, *, name: str) -> UUID:
    """Add a tenant with a webhook secret of its own.  Raises InvalidValue if the name is taken."""
    added: UUID | None = session.scalar(
        insert(Tenant)
        .values(name=name, webhook_secret=secrets.encrypt(new_webhook_secret()))
        .on_conflict_do_nothing()
        .returning(Tenant.id)
    )
    if added is None:
        raise InvalidValue(f"There is a tenant named {name!r} already.", param="name")
    return added


def find_tenant(session: Session, *, name: str) -> UUID | None:
    return session.scalar(select(Tenant.id).where(Tenant.name == name))


def webhook_secret(session: Session, secrets: Secrets, *, tenant_id: UUID) -> str:
    """The `whsec_…` that signs what is sent to a job's own `webhook_url`."""
    token = session.scalar(select(Tenant.webhook_secret).where(Tenant.id == tenant_id))
    if token is None:
        raise NotFound(f"There is no tenant {tenant_id}.")
    return secrets.decrypt(token)


def create_key(
    session: Session,
    *,
    tenant_id: UUID,
    name: str,
    admin: bool = False,
    expires_in: timedelta | None = None,
) -> str:
    """Add a key and return it whole.  It can never be shown again."""
    key_id, secret = _random(_ID_LENGTH), _random(_SECRET_LENGTH)
    session.execute(
        insert(ApiKey).values(
            id=key_id,
            tenant_id=tenant_id,
            name=name,
            secret_sha256=_hash(secret),
            admin=admin,
            expires_at=None if expires_in is None else func.now() + expires_in,
        )
    )
    return f"gm_{key_id}_{secret}"


def revoke_key(session: Session, *, key_id: str) -> None:
    """End a key for good.  Revoking it again changes nothing."""
    revoked = session.scalar(
        update(ApiKey)
        .where(ApiKey.id == key_id)
        .values(revoked_at=func.coalesce(ApiKey.revoked_at, func.now()))
        .returning(ApiKey.id)
    )
    if revoked is None:
        raise NotFound(f"There is no key with the id {key_id!r}; `gristmill keys list` shows them.")


def list_keys(session: Session, *, tenant_id: UUID) -> Sequence[ApiKey]:
    query = select(ApiKey).where(ApiKey.tenant_id == tenant_id)
    return session.scalars(query.order_by(ApiKey.created_at, ApiKey.id)).all()


_FIND = text("""
    SELECT tenant_id, admin, secret_sha256,
           coalesce(last_used_at < now() - interval '1 minute', true) AS unseen,
           (SELECT max_requests_per_second FROM tenants t WHERE t.id = tenant_id) AS rate
      FROM api_keys
     WHERE id = :id AND revoked_at IS NULL AND coalesce(expires_at > now(), true)
""")

# Its own condition, so that of many requests at once one writes.
_TOUCH = text("""
    UPDATE api_keys SET last_used_at = now()
     WHERE id = :id AND coalesce(last_used_at < now() - interval '1 minute', true)
""")


def authenticate(session: Session, key: str) -> Caller:
    """Say whose key this is.  Raises NotAuthenticated, in the same words whatever is wrong."""
    parts = _KEY.fullmatch(key)
    key_id, secret = parts.groups() if parts else ("", "")
    row = session.execute(_FIND, {"id": key_id}).first()
    stored = _NO_KEY if row is None else bytes(row.secret_sha256)
    if not hmac.compare_digest(stored, _hash(secret)) or row is None or not secret:
        raise NotAuthenticated("This API key is not valid: it is unknown, revoked or expired.")
    if row.unseen:
        session.execute(_TOUCH, {"id": key_id})
    return Caller(row.tenant_id, key_id, row.admin, row.rate)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _random(length: int) -> str:
    return "".join(choice(_ALPHABET) for _ in range(length))
