"""What is told to whom: a job's one terminal event, and each webhook."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.accounts import Tenant
from jobs.models.base import Base, created_at_now, uuid_key
from jobs.models.jobs import Job
from jobs.models.states import DeliveryState
from jobs.models.webhooks import WebhookEndpoint
from jobs.models.workers import Worker


class Event(Base):
    """What happened, once: the terminal event of a job.  `payload` is signed byte for byte.

    A sample that an endpoint is tried with is no job's.
    """

    __tablename__ = "events"

    id: Mapped[UUID] = uuid_key()
    job_id: Mapped[UUID | None] = mapped_column(ForeignKey(Job.id), unique=True)
    type: Mapped[str]
    payload: Mapped[str]
    created_at: Mapped[datetime] = created_at_now()


class Delivery(Base):
    """One webhook to be sent to one URL, with its own attempts and its own lease.

    `endpoint_id` is null where the URL is a job's own.
    """

    __tablename__ = "deliveries"

    id: Mapped[UUID] = uuid_key()
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    event_id: Mapped[UUID] = mapped_column(ForeignKey(Event.id))
    endpoint_id: Mapped[UUID | None] = mapped_column(ForeignKey(WebhookEndpoint.id))
    url: Mapped[str]
    # Whose attempts are counted and rested together: an endpoint's, or those at one host.
    target: Mapped[str]
    test: Mapped[bool] = mapped_column(server_default="false")  # a sample: tried once
    state: Mapped[DeliveryState] = mapped_column(server_default="pending")
    owner: Mapped[UUID | None] = mapped_column(ForeignKey(Worker.incarnation))
    attempt: Mapped[int] = mapped_column(server_default="0")
    # The attempts before it was last asked for again: its schedule starts anew there.
    attempts_before: Mapped[int] = mapped_column(server_default="0")
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    created_at: Mapped[datetime] = created_at_now()
    delivered_at: Mapped[datetime | None]
    last_status: Mapped[int | None]
    last_error: Mapped[str | None]

    __table_args__ = (
        UniqueConstraint("event_id", "endpoint_id", postgresql_nulls_not_distinct=True),
        CheckConstraint("owner IS NULL OR state = 'pending'", name="leased"),
        Index(
            "deliveries_due",
            "due_at",
            postgresql_where=text("state = 'pending' AND owner IS NULL"),
        ),
        Index("deliveries_owner", "owner", postgresql_where=text("owner IS NOT NULL")),
        Index(
            "deliveries_waiting",
            "tenant_id",
            "target",
            "due_at",
            postgresql_where=text("state = 'pending' AND owner IS NULL"),
        ),
        Index("deliveries_test", "created_at", postgresql_where=text("test")),
        Index(None, "tenant_id", "created_at", "id"),
        Index(None, "endpoint_id", "created_at"),
    )
