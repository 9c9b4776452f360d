"""Sends webhooks: one signed POST an attempt, and its outcome on the delivery's row.

Source: Standard Webhooks 1.0.0.  The id is the event's and stays through all attempts; timestamp
and signature are the attempt's; the body is the stored payload, byte for byte.
"""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpcore
from standardwebhooks import Webhook

from jobs import deliveries, ids, metrics
from jobs.database import Sessions
from jobs.deliveries import DeliveryLease, Outcome
from jobs.secrets import Secrets
from worker.control.egress import AddressRefused, CheckedBackend
from worker.control.hands import Hands
from worker.control.names import Resolver

log = logging.getLogger(__name__)

_TIMEOUTS = {"connect": 5.0, "write": 5.0, "read": 15.0, "pool": 5.0}  # seconds, of each call
_WHOLE_ATTEMPT = 15.0  # seconds, however slowly the endpoint drips
_LOOKUPS = 64  # at once: those of the attempts under way, and of many that have gone away
_MAX_ANSWER = 4096  # bytes; more of an answer is not read
_MAX_REASON = 200  # characters of why an endpoint could not be asked
_USER_AGENT = "Gristmill-Webhooks/1"
_MAX_DIGITS = 9  # of a Retry-After in seconds


class WebhookSender:
    def __init__(
        self, sessions: Sessions, secrets: Secrets, *, hands: Hands, allow_private: bool
    ) -> None:
        self._sessions = sessions
        self._secrets = secrets
        self._hands = hands
        self._allow_private = allow_private
        self._resolver = Resolver(_LOOKUPS)

    def deliver_next(self) -> bool:
        """Make one attempt at the webhook that has been due longest.  False if none is due."""
        with self._sessions.begin() as session:
            lease = deliveries.claim(session, self._hands.me)
        if lease is None:
            return False
        with self._hands.holding(lease.id, lease.attempt):
            self._deliver(lease)
        return True

    def _deliver(self, lease: DeliveryLease) -> None:
        try:
            outcome = self._attempt(lease)
        # Its own fault, say a secret of another key: what is due behind it is somebody else's.
        except Exception:
            log.exception("a webhook is not sent", extra={"delivery_id": str(lease.id)})
            outcome = Outcome(None, "internal error")
        self._record(lease, outcome)
        log.info(
            "webhook attempted", extra={"delivery_id": str(lease.id), "status": outcome.status}
        )

    def _record(self, lease: DeliveryLease, outcome: Outcome) -> None:
        metrics.WEBHOOK_ATTEMPTS.labels(str(outcome.status or "none")).inc()
        with self._sessions.begin() as session:
            deliveries.record(session, lease, outcome)

    def _attempt(self, lease: DeliveryLease) -> Outcome:
        """Never holds the answer's body, which would show a tenant what lies behind an address."""
        try:
            return self._post(lease)
        except AddressRefused as refusal:
            return Outcome(None, str(refusal))
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            return Outcome(None, f"{type(error).__name__}: {error}"[:_MAX_REASON].rstrip(": "))
        except httpcore.ProtocolError as error:  # whose text quotes the answer
            return Outcome(None, type(error).__name__)
        except httpcore.UnsupportedProtocol:
            return Outcome(None, "the URL is neither http nor https")

    def _post(self, lease: DeliveryLease) -> Outcome:
        backend = CheckedBackend(
            self._resolver, allow_private=self._allow_private, seconds=_WHOLE_ATTEMPT
        )
        with (
            httpcore.ConnectionPool(network_backend=backend) as pool,
            pool.stream(
                "POST",
                lease.url,
                headers=list(self._headers(lease).items()),
                content=lease.payload.encode(),
                extensions={"timeout": _TIMEOUTS},
            ) as answer,
        ):
            read = 0
            for chunk in answer.iter_stream():
                read += len(chunk)
                if read >= _MAX_ANSWER:
                    break
            return _outcome(answer, lease.claimed_at)

    def _headers(self, lease: DeliveryLease) -> dict[str, str]:
        event_id, now = ids.public(ids.EVENT, lease.event_id), lease.claimed_at.astimezone(UTC)
        secrets = [lease.secret] if lease.old_secret is None else [lease.secret, lease.old_secret]
        signatures = [
            Webhook(self._secrets.decrypt(secret)).sign(event_id, now, lease.payload)
            for secret in secrets
        ]
        return {
            "content-type": "application/json",
            "user-agent": _USER_AGENT,
            "webhook-id": event_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signatures),
        }


def _outcome(answer: httpcore.Response, now: datetime) -> Outcome:
    error = None if 200 <= answer.status < 300 else f"the endpoint answered {answer.status}"
    return Outcome(answer.status, error, _retry_after(answer, now))


def _retry_after(answer: httpcore.Response, now: datetime) -> timedelta | None:
    """What the endpoint asks for, in seconds or as a date (RFC 9110, section 10.2.3)."""
    headers = {name.lower(): value for name, value in answer.headers}
    text = headers.get(b"retry-after", b"").decode("ascii", "replace").strip()
    if text.isdigit() and len(text) < _MAX_DIGITS:
        return timedelta(seconds=int(text))
    try:
        return parsedate_to_datetime(text) - now
    except (TypeError, ValueError):  # there is none, or it is no date
        return None
