"""Webhooks to be sent: claimed, sent by worker/control/webhooks.py, and recorded."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

# After each failed attempt; 75.6 hours in all.  Source: Standard Webhooks 1.0.0, example schedule.
SCHEDULE = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
)


@dataclass(frozen=True, slots=True)
class DeliveryLease:
    """One attempt at one webhook.  `payload` is sent byte for byte."""

    id: UUID
    attempt: int
    owner: UUID
    url: str
    event_id: UUID
    payload: str
    webhook_secret: bytes  # the tenant's, encrypted


_CLAIM = text("""
    WITH next AS MATERIALIZED (
        SELECT id FROM deliveries
         WHERE state = 'pending' AND owner IS NULL AND due_at <= now()
           AND EXISTS (SELECT 1 FROM workers w
                        WHERE w.incarnation = :me AND w.beat_until > now() AND NOT w.draining)
         ORDER BY due_at LIMIT 1
           FOR UPDATE SKIP LOCKED
    )
    UPDATE deliveries d
       SET owner = :me, attempt = d.attempt + 1
      FROM next, events e, jobs j, tenants t
     WHERE d.id = next.id AND e.id = d.event_id AND j.id = e.job_id AND t.id = j.tenant_id
    RETURNING d.id, d.attempt, d.owner, d.url, e.id AS event_id, e.payload, t.webhook_secret
""")

_RECORD = text("""
    UPDATE deliveries
       SET owner = NULL, state = CAST(:state AS delivery_state),
           due_at = now() + make_interval(secs => CAST(:wait AS double precision)),
           delivered_at = CASE WHEN :state = 'delivered' THEN now() END,
           last_status = :status, last_error = :error
     WHERE id = :id AND owner = :owner AND attempt = :attempt AND state = 'pending'
""")


def claim(session: Session, me: UUID) -> DeliveryLease | None:
    """Lease the delivery that has been due longest."""
    row = session.execute(_CLAIM, {"me": me}).mappings().one_or_none()
    return None if row is None else DeliveryLease(**row)


def record(
    session: Session, lease: DeliveryLease, *, status: int | None, error: str | None
) -> None:
    """Write down how an attempt ended.  Only a 2xx is a success; a late writer changes nothing."""
    wait = timedelta()
    if status is not None and 200 <= status < 300:
        state = "delivered"
    elif lease.attempt > len(SCHEDULE):
        state = "failed"
    else:
        state, wait = "pending", SCHEDULE[lease.attempt - 1]
    session.execute(
        _RECORD,
        {
            "id": lease.id,
            "owner": lease.owner,
            "attempt": lease.attempt,
            "state": state,
            "wait": wait.total_seconds(),
            "status": status,
            "error": error,
        },
    )
