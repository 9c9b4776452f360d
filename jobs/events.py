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

MOST_HOSTS = 200  # of jobs' own URLs, that are targets of their own: a claim looks at each target
OTHER_HOSTS = "https://(other hosts)"

# To a disabled endpoint it has failed at once: once enabled, it can be asked for again.  FOR SHARE,
# so that one just being disabled or deleted is seen so: what waits for it was given up then.
_ADD = text("""
    WITH RECURSIVE job AS MATERIALIZED (
        SELECT tenant_id FROM jobs WHERE id = :job_id
    ),
    event AS (
        INSERT INTO events (id, job_id, type, payload) VALUES (:id, :job_id, :type, :payload)
        RETURNING id
    ),
    hosts AS (
        (SELECT target FROM deliveries
          WHERE tenant_id = (SELECT tenant_id FROM job) AND state = 'pending' AND owner IS NULL
            AND target >= 'http'
          ORDER BY target LIMIT 1)
         UNION ALL
        SELECT following.target
          FROM hosts, LATERAL (
              SELECT d.target FROM deliveries d
               WHERE d.tenant_id = (SELECT tenant_id FROM job)
                 AND d.state = 'pending' AND d.owner IS NULL AND d.target > hosts.target
               ORDER BY d.target LIMIT 1) following
    ),
    own AS (
        SELECT CAST(NULL AS uuid) AS endpoint_id, CAST(:webhook_url AS text) AS url,
               CASE WHEN (SELECT count(*) FROM (SELECT 1 FROM hosts LIMIT :most) few) < :most
                      OR EXISTS (SELECT 1 FROM deliveries d
                                  WHERE d.tenant_id = (SELECT tenant_id FROM job)
                                    AND d.state = 'pending' AND d.owner IS NULL
                                    AND d.target = :host)
                    THEN CAST(:host AS text) ELSE :others END AS target, true AS works
         WHERE CAST(:webhook_url AS text) IS NOT NULL
    ),
    endpoints AS MATERIALIZED (
        SELECT w.id, w.url, CAST(w.id AS text) AS target, w.disabled_at IS NULL AS works
          FROM job JOIN webhook_endpoints w ON w.tenant_id = job.tenant_id
         WHERE w.deleted_at IS NULL AND :type = ANY (w.event_types)
           FOR SHARE OF w
    )
    INSERT INTO deliveries (tenant_id, event_id, endpoint_id, url, target, state, last_error)
    SELECT job.tenant_id, event.id, told.endpoint_id, told.url, told.target,
           CAST(CASE WHEN told.works THEN 'pending' ELSE 'failed' END AS delivery_state),
           CASE WHEN NOT told.works THEN :disabled END
      FROM job, event, (SELECT * FROM own UNION ALL SELECT * FROM endpoints) told
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
    session.execute(_ADD, event | told | {"most": MOST_HOSTS, "others": OTHER_HOSTS})


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
