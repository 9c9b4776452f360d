"""The webhooks that fail: endpoints that were disabled, and targets that rest or may soon."""

from collections.abc import Iterator

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.overview.views import WebhookView

_LISTED = 20

# Of a URL only its host: the rest may hold what is its owner's alone.
_FAILING = text("""
    SELECT n.name AS tenant, w.name AS endpoint,
           substring(coalesce(w.url, t.target) FROM '^[a-z]+://([^/?#]*)') AS host,
           coalesce(t.failures, 0) AS failures,
           extract(epoch FROM now() - t.failing_since)::float8 AS failing_for,
           coalesce(t.open_until > now(), false) AS resting, w.disabled_reason
      FROM webhook_targets t
      FULL JOIN (SELECT * FROM webhook_endpoints WHERE deleted_at IS NULL) w
             ON w.tenant_id = t.tenant_id AND CAST(w.id AS text) = t.target
      JOIN tenants n ON n.id = coalesce(w.tenant_id, t.tenant_id)
     WHERE (t.target IS NOT NULL OR w.disabled_at IS NOT NULL)
       AND (w.id IS NOT NULL OR t.target LIKE 'http%')
     ORDER BY w.disabled_at DESC NULLS LAST, t.failures DESC, n.name
     LIMIT :listed
""")


def list_failing(session: Session) -> Iterator[WebhookView]:
    for row in session.execute(_FAILING, {"listed": _LISTED}).mappings():
        yield WebhookView(**row)
