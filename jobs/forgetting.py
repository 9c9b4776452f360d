"""Rows that nobody asks for any more: deleted a bounded number at a time."""

from sqlalchemy import text
from sqlalchemy.orm import Session

_LIMIT = 10_000  # of one kind in one round

_OLD_ANSWERS = text("""
    DELETE FROM idempotency_keys
     WHERE (tenant_id, key) IN (
         SELECT tenant_id, key FROM idempotency_keys
          WHERE created_at < now() - interval '24 hours' LIMIT :limit)
""")

# Nothing has been tried there for a week: no delivery that waits is so far from its next attempt.
_OLD_TARGETS = text("""
    DELETE FROM webhook_targets
     WHERE coalesce(open_until, failing_since) < now() - interval '7 days'
""")

_OLD_SAMPLES = text("""
    WITH gone AS (
        DELETE FROM deliveries
         WHERE id IN (SELECT id FROM deliveries
                       WHERE test AND created_at < now() - interval '7 days' LIMIT :limit)
        RETURNING event_id
    )
    DELETE FROM events WHERE id IN (SELECT event_id FROM gone)
""")


def forget_old(session: Session) -> None:
    """Answers kept for a day, failures of addresses that nobody tries, samples of last week."""
    session.execute(_OLD_ANSWERS, {"limit": _LIMIT})
    session.execute(_OLD_TARGETS)
    session.execute(_OLD_SAMPLES, {"limit": _LIMIT})
