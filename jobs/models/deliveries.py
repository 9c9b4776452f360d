"""What is told to whom: a job's one terminal event, and each webhook."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.base import Base, created_at_now, uuid_key
from jobs.models.jobs import Job
from jobs.models.states import DeliveryState
from jobs.models.workers import Worker


class Event(Base):
    """What happened, once: the terminal event of a job.  `payload` is signed byte for byte."""

    __tablename__ = "events"

    id: Mapped[UUID] = uuid_key()
    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id), unique=True)
    type: Mapped[str]
    payload: Mapped[str]
    created_at: Mapped[datetime] = created_at_now()


class Delivery(Base):
    """One webhook to be sent to one URL, with its own attempts and its own lease."""

    __tablename__ = "deliveries"

    id: Mapped[UUID] = uuid_key()
    event_id: Mapped[UUID] = mapped_column(ForeignKey(Event.id))
    url: Mapped[str]
    state: Mapped[DeliveryState] = mapped_column(server_default="pending")
    owner: Mapped[UUID | None] = mapped_column(ForeignKey(Worker.incarnation))
    attempt: Mapped[int] = mapped_column(server_default="0")
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    created_at: Mapped[datetime] = created_at_now()
    delivered_at: Mapped[datetime | None]
    last_status: Mapped[int | None]
    last_error: Mapped[str | None]

    __table_args__ = (
        UniqueConstraint("event_id", "url"),
        CheckConstraint("owner IS NULL OR state = 'pending'", name="leased"),
        Index(
            "deliveries_due",
            "due_at",
            postgresql_where=text("state = 'pending' AND owner IS NULL"),
        ),
        Index("deliveries_owner", "owner", postgresql_where=text("owner IS NOT NULL")),
    )
