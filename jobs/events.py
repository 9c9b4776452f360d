"""The one terminal event of a job, written in the transaction that ends it, and whom it is for."""

from uuid import UUID, uuid4

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import ids, webhook_urls
from jobs.models import JobKind, JobState

_ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED)

# What an endpoint may ask to be told.
TYPES = tuple(
    f"{kind.noun}.{state}" for kind in (JobKind.BATCH, JobKind.REQUEST) for state in _ENDS
)

DISABLED = "the endpoint is disabled"

_NOW = text("SELECT floor(extract(epoch FROM now()))::bigint")

# To a disabled endpoint it has failed at once: once enabled, it can be asked for again.
_ADD = text("""
    WITH event AS (
        INSERT INTO events (id, job_id, type, payload) VALUES (:id, :job_id, :type, :payload)
        RETURNING id
    ),
    told AS (
        SELECT CAST(NULL AS uuid) AS endpoint_id, CAST(:webhook_url AS text) AS url,
               CAST(:host AS text) AS target, true AS works
         WHERE CAST(:webhook_url AS text) IS NOT NULL
         UNION ALL
        SELECT w.id, w.url, CAST(w.id AS text), w.disabled_at IS NULL
          FROM webhook_endpoints w JOIN jobs j ON j.tenant_id = w.tenant_id
         WHERE j.id = :job_id AND w.deleted_at IS NULL AND :type = ANY (w.event_types)
    )
    INSERT INTO deliveries (tenant_id, event_id, endpoint_id, url, target, state, last_error)
    SELECT j.tenant_id, event.id, told.endpoint_id, told.url, told.target,
           CAST(CASE WHEN told.works THEN 'pending' ELSE 'failed' END AS delivery_state),
           CASE WHEN NOT told.works THEN :disabled END
      FROM event, told, jobs j WHERE j.id = :job_id
""")

# A target of its own: a sample waits for no rest, and its failure counts for nothing.
_ADD_SAMPLE = text("""
    WITH event AS (
        INSERT INTO events (id, type, payload) VALUES (:id, :type, :payload) RETURNING id
    )
    INSERT INTO deliveries (tenant_id, event_id, endpoint_id, url, target, test)
    SELECT w.tenant_id, event.id, w.id, w.url, 'test of ' || w.id, true
      FROM event, webhook_endpoints w WHERE w.id = :endpoint_id
    RETURNING id
""")


def add(
    session: Session, job_id: UUID, kind: JobKind, *, state: JobState, webhook_url: str | None
) -> None:
    """Record how a job ended, and the webhooks that tell it.  The payload's bytes are final."""
    event_type = f"{kind.noun}.{state}"
    event = _event(session, event_type, subject=ids.public(ids.JOB_PREFIX[kind], job_id))
    host = None if webhook_url is None else webhook_urls.host_of(webhook_url)
    told = {"job_id": job_id, "webhook_url": webhook_url, "host": host, "disabled": DISABLED}
    session.execute(_ADD, event | told)


def add_sample(session: Session, *, endpoint_id: UUID, event_type: str) -> UUID:
    """An event that names no real job, for one endpoint.  Returns its delivery's id."""
    subject = event_type.partition(".")[0] + "_" + UUID(int=0).hex
    event = _event(session, event_type, subject=subject)
    added: UUID = session.scalars(_ADD_SAMPLE, event | {"endpoint_id": endpoint_id}).one()
    return added


def _event(session: Session, event_type: str, *, subject: str) -> dict[str, object]:
    event_id = uuid4()
    payload = {
        "id": ids.public(ids.EVENT, event_id),
        "object": "event",
        "type": event_type,
        "created_at": session.scalars(_NOW).one(),
        "data": {"id": subject},
    }
    return {"id": event_id, "type": event_type, "payload": orjson.dumps(payload).decode()}
