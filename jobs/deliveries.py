"""Webhooks to be sent: claimed, sent by worker/control/webhooks.py, and recorded.

A target, an endpoint or a host, that is slow or fails holds nobody else up: two attempts at most
are made at it at once, and after three failures running a breaker lets it rest for a while and then
tries it with one.  A claim looks at the head of each target's own line, so that it never walks past
what waits behind a slow one.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import endpoints
from jobs.events import DISABLED

# After each failed attempt; 75.6 hours in all.  Source: Standard Webhooks 1.0.0, example schedule.
SCHEDULE = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
MAX_RETRY_AFTER = timedelta(hours=6)

AT_ONCE = 2  # attempts at one target
BROKEN_AFTER = 3  # failures running
_FIRST_REST = 10.0  # seconds; twice as long after each further failure
_LONGEST_REST = 600.0

# An endpoint is given up after so many failures over so long without a success.
DISABLE_AFTER = timedelta(days=5)
DISABLE_FAILURES = 10

_GONE = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLease:
    """One attempt at one webhook.  `payload` is sent byte for byte; `tries` counts this attempt
    since the delivery was last asked for.  Secrets are encrypted."""

    id: UUID
    attempt: int
    owner: UUID
    claimed_at: datetime  # by the database's clock: a worker's may be wrong
    url: str
    target: str
    tenant_id: UUID
    endpoint_id: UUID | None
    test: bool
    tries: int
    event_id: UUID
    payload: str
    secret: bytes
    old_secret: bytes | None  # of the endpoint, while it still signs too


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended: the answer's status, or None and why there was none."""

    status: int | None
    error: str | None
    retry_after: timedelta | None = None

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


# One claim at a time, or two that begin together would not see each other's.
_LOCK = text("SELECT pg_advisory_xact_lock(hashtext('deliveries.claim'))")

# The targets that something waits for, one after the other along the index, and each one's head.
# What is sent goes to its endpoint's present address, whatever that was as the event happened, and
# never to one that is deleted; to one that is disabled goes a sample alone.
_CLAIM = text("""
    WITH RECURSIVE targets AS (
        (SELECT tenant_id, target FROM deliveries
          WHERE state = 'pending' AND owner IS NULL ORDER BY tenant_id, target LIMIT 1)
         UNION ALL
        SELECT following.tenant_id, following.target
          FROM targets, LATERAL (
              SELECT d.tenant_id, d.target FROM deliveries d
               WHERE d.state = 'pending' AND d.owner IS NULL
                 AND (d.tenant_id, d.target) > (targets.tenant_id, targets.target)
               ORDER BY d.tenant_id, d.target LIMIT 1) following
    ),
    busy AS MATERIALIZED (
        SELECT tenant_id, target, count(*) AS attempts
          FROM deliveries WHERE owner IS NOT NULL GROUP BY tenant_id, target
    ),
    next AS MATERIALIZED (
        SELECT head.id
          FROM targets
          LEFT JOIN busy USING (tenant_id, target)
          LEFT JOIN webhook_targets t USING (tenant_id, target)
         CROSS JOIN LATERAL (
              SELECT d.id, d.due_at, d.endpoint_id, d.test FROM deliveries d
               WHERE d.state = 'pending' AND d.owner IS NULL AND d.due_at <= now()
                 AND d.tenant_id = targets.tenant_id AND d.target = targets.target
               ORDER BY d.due_at LIMIT 1) head
          LEFT JOIN webhook_endpoints w ON w.id = head.endpoint_id
         WHERE coalesce(t.open_until <= now(), true)
           AND w.deleted_at IS NULL AND (w.disabled_at IS NULL OR head.test)
           AND coalesce(busy.attempts, 0)
               < CASE WHEN t.failures >= :broken_after THEN 1 ELSE :at_once END
           AND EXISTS (SELECT 1 FROM workers w
                        WHERE w.incarnation = :me AND w.beat_until > now() AND NOT w.draining)
         ORDER BY head.due_at LIMIT 1
    )
    UPDATE deliveries d
       SET owner = :me, attempt = d.attempt + 1, url = coalesce(w.url, d.url)
      FROM next
      JOIN deliveries found ON found.id = next.id
      JOIN events e ON e.id = found.event_id
      JOIN tenants n ON n.id = found.tenant_id
      LEFT JOIN webhook_endpoints w ON w.id = found.endpoint_id
     WHERE d.id = next.id AND d.state = 'pending' AND d.owner IS NULL
    RETURNING d.id, d.attempt, d.owner, now() AS claimed_at, d.url, d.target, d.tenant_id,
              d.endpoint_id, d.test,
              d.attempt - d.attempts_before AS tries, e.id AS event_id, e.payload,
              coalesce(w.secret, n.webhook_secret) AS secret,
              CASE WHEN w.old_secret_until > now() THEN w.old_secret END AS old_secret
""")

# Before the delivery's own row, for so do those who change or delete the endpoint.
_HOLD_ENDPOINT = text("""
    SELECT disabled_at IS NULL AND deleted_at IS NULL FROM webhook_endpoints
     WHERE id = :endpoint_id FOR NO KEY UPDATE
""")

# With a little jitter, so that what failed together does not come back together.
_RECORD = text("""
    UPDATE deliveries
       SET owner = NULL, state = CAST(:state AS delivery_state),
           due_at = now()
                    + make_interval(secs => CAST(:wait AS double precision) * (1 + random() / 20)),
           delivered_at = CASE WHEN :state = 'delivered' THEN now() END,
           last_status = :status, last_error = :error
     WHERE id = :id AND owner = :owner AND attempt = :attempt AND state = 'pending'
    RETURNING 1
""")

_WORKS = text("DELETE FROM webhook_targets WHERE tenant_id = :tenant_id AND target = :target")

_FAILS = text("""
    INSERT INTO webhook_targets AS t (tenant_id, target, failures)
    VALUES (:tenant_id, :target, 1)
        ON CONFLICT (tenant_id, target) DO UPDATE
           SET failures = t.failures + 1,
               open_until = CASE WHEN t.failures + 1 >= :broken_after THEN
                   now() + make_interval(secs => least(
                       :first_rest * power(2, least(t.failures + 1 - :broken_after, 30)),
                       :longest_rest)) END
    RETURNING failures, failing_since <= now() - :disable_after AS long
""")

_AT_ITS_ADDRESS = text("SELECT url = :url FROM webhook_endpoints WHERE id = :endpoint_id")


def claim(session: Session, me: UUID) -> DeliveryLease | None:
    """Lease the delivery that has been due longest, of a target that may be called just now."""
    session.execute(_LOCK)
    values = {"me": me, "at_once": AT_ONCE, "broken_after": BROKEN_AFTER}
    row = session.execute(_CLAIM, values).mappings().one_or_none()
    return None if row is None else DeliveryLease(**row)


def record(session: Session, lease: DeliveryLease, outcome: Outcome) -> None:
    """Write down how an attempt ended.  Only a 2xx is a success; a late writer changes nothing."""
    present = _went_to_present_address(session, lease)
    state, wait = _next(lease, outcome, gone=present and outcome.status == _GONE)
    error = outcome.error
    if state == "pending" and not _is_open(session, lease):
        state, error = "failed", DISABLED
    recorded = session.execute(
        _RECORD,
        {
            "id": lease.id,
            "owner": lease.owner,
            "attempt": lease.attempt,
            "state": state,
            "wait": wait.total_seconds(),
            "status": outcome.status,
            "error": error,
        },
    ).first()
    if recorded is not None and not lease.test and present:
        _judge_target(session, lease, outcome)


def _next(lease: DeliveryLease, outcome: Outcome, *, gone: bool) -> tuple[str, timedelta]:
    """The delivery's next state, and how long until its next attempt."""
    if outcome.ok:
        return "delivered", timedelta()
    if lease.test or gone or lease.tries > len(SCHEDULE):
        return "failed", timedelta()
    asked = min(outcome.retry_after or timedelta(), MAX_RETRY_AFTER)
    return "pending", max(SCHEDULE[lease.tries - 1], asked)


def _is_open(session: Session, lease: DeliveryLease) -> bool:
    """Whether the lease's endpoint, if it has one, still wants to be told."""
    if lease.endpoint_id is None:
        return True
    return bool(session.scalar(_HOLD_ENDPOINT, {"endpoint_id": lease.endpoint_id}))


def _went_to_present_address(session: Session, lease: DeliveryLease) -> bool:
    """Whether its answer says anything of where its endpoint is now."""
    if lease.endpoint_id is None:
        return True
    asked = {"endpoint_id": lease.endpoint_id, "url": lease.url}
    return bool(session.scalar(_AT_ITS_ADDRESS, asked))


def _judge_target(session: Session, lease: DeliveryLease, outcome: Outcome) -> None:
    target = {"tenant_id": lease.tenant_id, "target": lease.target}
    if outcome.ok:
        session.execute(_WORKS, target)
        return
    found = session.execute(
        _FAILS,
        target
        | {
            "broken_after": BROKEN_AFTER,
            "first_rest": _FIRST_REST,
            "longest_rest": _LONGEST_REST,
            "disable_after": DISABLE_AFTER,
        },
    ).one()
    if lease.endpoint_id is None:
        return
    if outcome.status == _GONE:
        endpoints.disable(session, lease.endpoint_id, why="it answered 410: it is gone")
    elif found.failures >= DISABLE_FAILURES and found.long:
        why = f"{found.failures} failures and no success in {DISABLE_AFTER.days} days"
        endpoints.disable(session, lease.endpoint_id, why=why)
