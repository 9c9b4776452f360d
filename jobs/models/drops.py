"""Folders in S3 whose objects become batches by themselves."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.accounts import Tenant
from jobs.models.base import Base, created_at_now, uuid_key
from jobs.models.jobs import Job


class Drop(Base):
    """One folder of one tenant, and what its files are to run as."""

    __tablename__ = "drops"

    id: Mapped[UUID] = uuid_key()
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    bucket: Mapped[str]
    prefix: Mapped[str]  # empty, or with a slash at its end
    endpoint: Mapped[str]
    completion_window: Mapped[str]
    created_at: Mapped[datetime] = created_at_now()
    ended_at: Mapped[datetime | None]

    __table_args__ = (UniqueConstraint("tenant_id", "bucket", "prefix"),)


class DropObject(Base):
    """One version of one object; its row and its batch are made in one transaction."""

    __tablename__ = "drop_objects"

    drop_id: Mapped[UUID] = mapped_column(ForeignKey(Drop.id), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    etag: Mapped[str] = mapped_column(primary_key=True)
    # Null once its batch is deleted: what has run once is not picked up again.
    job_id: Mapped[UUID | None] = mapped_column(
        ForeignKey(Job.id, ondelete="SET NULL"), unique=True
    )
    created_at: Mapped[datetime] = created_at_now()
    settled_at: Mapped[datetime | None]  # its batch has ended, and that is known in the folder

    __table_args__ = (
        Index("drop_objects_open", "job_id", postgresql_where=text("settled_at IS NULL")),
    )
