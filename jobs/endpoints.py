"""Webhook endpoints: addresses of a tenant's that are told of every event of certain types.

Each has a secret of its own, stored encrypted and shown once.  After a rotation the old one may
sign beside it for a day, so that its owner can change over without a gap.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs import paging
from jobs.errors import NotAllowedNow, NotFound
from jobs.events import DISABLED
from jobs.models import Tenant, WebhookEndpoint, WebhookTarget
from jobs.paging import Cursor, Page
from jobs.secrets import Secrets, new_webhook_secret

MAX_ENDPOINTS = 50  # of one tenant: each makes a delivery of each event

DELETED = "the endpoint was deleted"
_HINT = 4  # characters of a secret that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointChange:
    """None leaves a thing as it is."""

    name: str | None = None
    url: str | None = None
    event_types: Collection[str] | None = None
    enabled: bool | None = None


def create(
    session: Session,
    secrets: Secrets,
    *,
    tenant_id: UUID,
    name: str,
    url: str,
    event_types: Collection[str],
) -> tuple[WebhookEndpoint, str]:
    """Add an endpoint; also returns its secret, which is not shown again.

    Raises NotAllowedNow if there are too many.
    """
    # Of two at once neither would count the other.  Locked as jobs/quotas.py does.
    session.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True))
    query = select(func.count()).where(
        WebhookEndpoint.tenant_id == tenant_id, WebhookEndpoint.deleted_at.is_(None)
    )
    if session.scalars(query).one() >= MAX_ENDPOINTS:
        raise NotAllowedNow(f"There are {MAX_ENDPOINTS} endpoints already. Delete one first.")
    secret = new_webhook_secret()
    row = insert(WebhookEndpoint).values(
        tenant_id=tenant_id,
        name=name,
        url=url,
        event_types=_in_order(event_types),
        secret=secrets.encrypt(secret),
    )
    return session.scalars(row.returning(WebhookEndpoint)).one(), secret


def get(
    session: Session, *, tenant_id: UUID, endpoint_id: UUID, for_update: bool = False
) -> WebhookEndpoint:
    query = select(WebhookEndpoint).where(
        WebhookEndpoint.tenant_id == tenant_id,
        WebhookEndpoint.id == endpoint_id,
        WebhookEndpoint.deleted_at.is_(None),
    )
    found = session.scalar(query.with_for_update() if for_update else query)
    if found is None:
        raise NotFound("There is no webhook endpoint with this id.", param="webhook_endpoint_id")
    return found


def list_page(session: Session, *, tenant_id: UUID, cursor: Cursor) -> Page[WebhookEndpoint]:
    return paging.fetch(
        session,
        WebhookEndpoint,
        cursor,
        owned=[WebhookEndpoint.tenant_id == tenant_id],
        shown=[WebhookEndpoint.deleted_at.is_(None)],
    )


def hint(secrets: Secrets, endpoint: WebhookEndpoint) -> str:
    """The secret as it may be shown again: enough to tell two apart."""
    return "whsec_…" + secrets.decrypt(endpoint.secret)[-_HINT:]


# For whoever looks; a claim takes the present address by itself.
_REDIRECT = text("""
    UPDATE deliveries SET url = :url
     WHERE endpoint_id = :endpoint_id AND state = 'pending' AND owner IS NULL
""")

# What is under way ends by itself; see deliveries.record.
_GIVE_UP = text("""
    UPDATE deliveries SET state = 'failed', last_error = :why
     WHERE endpoint_id = :endpoint_id AND state = 'pending' AND owner IS NULL
""")


def change(
    session: Session, *, tenant_id: UUID, endpoint_id: UUID, wanted: EndpointChange
) -> WebhookEndpoint:
    """Change an endpoint; what waits goes to its new address."""
    endpoint = get(session, tenant_id=tenant_id, endpoint_id=endpoint_id, for_update=True)
    values = _changed(endpoint, wanted)
    if wanted.enabled is False and endpoint.disabled_at is None:
        disable(session, endpoint_id, why="disabled by its owner")
    elif wanted.enabled and endpoint.disabled_at is not None:
        values |= {"disabled_at": None, "disabled_reason": None}
    if values:
        row = update(WebhookEndpoint).where(WebhookEndpoint.id == endpoint_id)
        session.execute(row.values(**values, updated_at=func.now()))
    if "url" in values or wanted.enabled:
        _forget_failures(session, endpoint)
    if "url" in values:
        session.execute(_REDIRECT, {"endpoint_id": endpoint_id, "url": values["url"]})
    session.refresh(endpoint)
    return endpoint


def _changed(endpoint: WebhookEndpoint, wanted: EndpointChange) -> dict[str, object]:
    types = None if wanted.event_types is None else _in_order(wanted.event_types)
    asked = {"name": wanted.name, "url": wanted.url, "event_types": types}
    return {
        name: value
        for name, value in asked.items()
        if value is not None and value != getattr(endpoint, name)
    }


def disable(session: Session, endpoint_id: UUID, *, why: str) -> None:
    """Send nothing more to it, and give up what waits; it can be asked for again once enabled."""
    row = update(WebhookEndpoint).where(WebhookEndpoint.id == endpoint_id)
    row = row.where(WebhookEndpoint.disabled_at.is_(None))
    session.execute(row.values(disabled_at=func.now(), disabled_reason=why, updated_at=func.now()))
    session.execute(_GIVE_UP, {"endpoint_id": endpoint_id, "why": DISABLED})


def _forget_failures(session: Session, endpoint: WebhookEndpoint) -> None:
    target = session.get(WebhookTarget, (endpoint.tenant_id, str(endpoint.id)))
    if target is not None:
        session.delete(target)


def rotate_secret(
    session: Session, secrets: Secrets, *, tenant_id: UUID, endpoint_id: UUID, keep_old: bool
) -> tuple[WebhookEndpoint, str]:
    """Give an endpoint a new secret, and return it; the old one signs too for a day, or no more."""
    endpoint = get(session, tenant_id=tenant_id, endpoint_id=endpoint_id, for_update=True)
    secret = new_webhook_secret()
    row = update(WebhookEndpoint).where(WebhookEndpoint.id == endpoint_id)
    session.execute(
        row.values(
            secret=secrets.encrypt(secret),
            old_secret=endpoint.secret if keep_old else None,
            old_secret_until=func.now() + text("interval '24 hours'") if keep_old else None,
            updated_at=func.now(),
        )
    )
    session.refresh(endpoint)
    return endpoint, secret


def delete(session: Session, *, tenant_id: UUID, endpoint_id: UUID) -> None:
    """Take an endpoint away, with its secrets and what waits to be sent to it."""
    get(session, tenant_id=tenant_id, endpoint_id=endpoint_id, for_update=True)
    row = update(WebhookEndpoint).where(WebhookEndpoint.id == endpoint_id)
    session.execute(
        row.values(deleted_at=func.now(), secret=b"", old_secret=None, old_secret_until=None)
    )
    session.execute(_GIVE_UP, {"endpoint_id": endpoint_id, "why": DELETED})


def _in_order(event_types: Collection[str]) -> list[str]:
    return sorted(set(event_types))
