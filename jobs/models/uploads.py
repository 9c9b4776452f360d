"""A file that arrives in parts."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, ForeignKey, Index, Uuid, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.accounts import Tenant
from jobs.models.base import Base, created_at_now, uuid_key
from jobs.models.files import File
from jobs.models.states import UploadState


class Upload(Base):
    """What the file is to be, and what it became."""

    __tablename__ = "uploads"

    id: Mapped[UUID] = uuid_key()
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    filename: Mapped[str]
    purpose: Mapped[str]
    bytes: Mapped[int] = mapped_column(BigInteger)
    file_expires_after: Mapped[int | None]  # seconds
    state: Mapped[UploadState] = mapped_column(server_default="pending")
    created_at: Mapped[datetime] = created_at_now()
    expires_at: Mapped[datetime]
    file_id: Mapped[UUID | None] = mapped_column(ForeignKey(File.id))
    part_ids: Mapped[list[UUID] | None] = mapped_column(ARRAY(Uuid))  # the file's, in order

    __table_args__ = (
        CheckConstraint("(state = 'completed') = (file_id IS NOT NULL)", name="file"),
        Index("uploads_pending", "expires_at", postgresql_where=text("state = 'pending'")),
    )


class UploadPart(Base):
    """An object in our bucket.  Its row goes after it, once the upload has ended."""

    __tablename__ = "upload_parts"

    id: Mapped[UUID] = uuid_key()
    upload_id: Mapped[UUID] = mapped_column(ForeignKey(Upload.id))
    bytes: Mapped[int] = mapped_column(BigInteger)
    presigned: Mapped[bool]  # the client itself puts the object, until its upload expires
    storage_key: Mapped[str]
    created_at: Mapped[datetime] = created_at_now()

    __table_args__ = (Index(None, "upload_id"),)
