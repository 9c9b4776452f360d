"""The one terminal event of a job, written in the transaction that ends it."""

from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import ids
from jobs.models import JobKind, JobState

_NEW = text("SELECT gen_random_uuid() AS id, extract(epoch FROM now())::bigint AS created_at")

_ADD = text("""
    INSERT INTO events (id, job_id, type, payload) VALUES (:id, :job_id, :type, :payload)
""")

_ADD_DELIVERY = text("INSERT INTO deliveries (event_id, url) VALUES (:event_id, :url)")

_SUBJECT = {JobKind.REQUEST: "job", JobKind.BATCH: "batch"}


def add(
    session: Session, job_id: UUID, kind: JobKind, *, state: JobState, webhook_url: str | None
) -> None:
    """Record how a job ended, and the webhook that tells it.  The payload's bytes are final."""
    new = session.execute(_NEW).one()
    event_type = f"{_SUBJECT[kind]}.{state}"
    payload = {
        "id": ids.public(ids.EVENT, new.id),
        "object": "event",
        "type": event_type,
        "created_at": new.created_at,
        "data": {"id": ids.public(ids.JOB_PREFIX[kind], job_id)},
    }
    values = {"id": new.id, "job_id": job_id, "type": event_type}
    session.execute(_ADD, values | {"payload": orjson.dumps(payload).decode()})
    if webhook_url is not None:
        session.execute(_ADD_DELIVERY, {"event_id": new.id, "url": webhook_url})
