"""A tenant's deliveries as it sees them, and their being asked for again.

What is sent again keeps its event's id, by which a receiver knows it, and its body byte for byte;
its schedule begins anew.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from jobs import paging
from jobs.errors import NotAllowedNow, NotFound
from jobs.models import Delivery, DeliveryState, Event, WebhookEndpoint
from jobs.paging import Cursor, Page

MAX_AGAIN = 10_000  # of one call


@dataclass(frozen=True, slots=True)
class DeliveryView:
    delivery: Delivery
    event_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Deliveries of one endpoint whose event happened in [since, until), in unix seconds."""

    endpoint_id: UUID
    since: int
    until: int
    failed_only: bool


def get(session: Session, *, tenant_id: UUID, delivery_id: UUID) -> DeliveryView:
    query = select(Delivery).where(Delivery.tenant_id == tenant_id, Delivery.id == delivery_id)
    delivery = session.scalar(query)
    if delivery is None:
        raise NotFound("There is no webhook delivery with this id.", param="delivery_id")
    return _views(session, [delivery])[0]


def list_page(
    session: Session,
    *,
    tenant_id: UUID,
    endpoint_id: UUID | None,
    state: DeliveryState | None,
    cursor: Cursor,
) -> tuple[list[DeliveryView], bool]:
    """A page, and whether there is more."""
    shown = []
    if endpoint_id is not None:
        shown.append(Delivery.endpoint_id == endpoint_id)
    if state is not None:
        shown.append(Delivery.state == state)
    page: Page[Delivery] = paging.fetch(
        session, Delivery, cursor, owned=[Delivery.tenant_id == tenant_id], shown=shown
    )
    return _views(session, list(page.rows)), page.has_more


def _views(session: Session, found: list[Delivery]) -> list[DeliveryView]:
    query = select(Event.id, Event.type).where(Event.id.in_([each.event_id for each in found]))
    types = {row.id: row.type for row in session.execute(query)}
    return [DeliveryView(each, types[each.event_id]) for each in found]


_AGAIN = text("""
    UPDATE deliveries
       SET state = 'pending', due_at = now(), attempts_before = attempt, delivered_at = NULL
     WHERE id = :delivery_id AND owner IS NULL
""")

_RANGE_AGAIN = text("""
    WITH wanted AS (
        SELECT id FROM deliveries
         WHERE endpoint_id = :endpoint_id AND tenant_id = :tenant_id AND NOT test
           AND owner IS NULL AND state <> 'pending' AND (state = 'failed' OR NOT :failed_only)
           AND created_at >= to_timestamp(:since) AND created_at < to_timestamp(:until)
         ORDER BY created_at LIMIT :limit
           FOR UPDATE SKIP LOCKED
    )
    UPDATE deliveries d
       SET state = 'pending', due_at = now(), attempts_before = d.attempt, delivered_at = NULL
      FROM wanted WHERE d.id = wanted.id
    RETURNING 1
""")


def redeliver(session: Session, *, tenant_id: UUID, delivery_id: UUID) -> None:
    """Send one again, whatever became of it; one that is under way is left alone."""
    view = get(session, tenant_id=tenant_id, delivery_id=delivery_id)
    if view.delivery.endpoint_id is not None:
        _check_enabled(session, tenant_id, view.delivery.endpoint_id)
    session.execute(_AGAIN, {"delivery_id": delivery_id})
    session.expire_all()


def redeliver_range(session: Session, wanted: Range, *, tenant_id: UUID) -> int:
    """Send again what is in a range, the earliest first; returns how many, MAX_AGAIN at most."""
    _check_enabled(session, tenant_id, wanted.endpoint_id)
    values = {
        "tenant_id": tenant_id,
        "endpoint_id": wanted.endpoint_id,
        "since": wanted.since,
        "until": wanted.until,
        "failed_only": wanted.failed_only,
        "limit": MAX_AGAIN,
    }
    return len(session.scalars(_RANGE_AGAIN, values).all())


def _check_enabled(session: Session, tenant_id: UUID, endpoint_id: UUID) -> None:
    query = select(WebhookEndpoint).where(
        WebhookEndpoint.tenant_id == tenant_id, WebhookEndpoint.id == endpoint_id
    )
    endpoint = session.scalar(query.with_for_update(read=True))
    if endpoint is None:
        raise NotFound("There is no webhook endpoint with this id.", param="endpoint_id")
    if endpoint.deleted_at is not None:
        raise NotAllowedNow("The endpoint was deleted: nothing can be sent to it any more.")
    if endpoint.disabled_at is not None:
        raise NotAllowedNow(
            'The endpoint is disabled. Enable it first: POST {"enabled": true} to it.'
        )
