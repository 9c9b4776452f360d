"""Files, whose bytes lie in S3."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.accounts import Tenant
from jobs.models.base import Base, created_at_now, uuid_key


class File(Base):
    __tablename__ = "files"

    id: Mapped[UUID] = uuid_key()
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    filename: Mapped[str]
    purpose: Mapped[str]
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    lines: Mapped[int]
    storage_key: Mapped[str]
    # Of an object in a bucket of the tenant's, which we neither change nor delete: where it lies,
    # and which version of it the file is.
    bucket: Mapped[str | None]
    etag: Mapped[str | None]
    created_at: Mapped[datetime] = created_at_now()
    expires_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]
    collected_at: Mapped[datetime | None]  # its object has been deleted

    __table_args__ = (
        CheckConstraint("(bucket IS NULL) = (etag IS NULL)", name="pinned"),
        Index(None, "tenant_id", "created_at", "id"),
        Index(
            "files_collectable",
            text("LEAST(deleted_at, expires_at)"),
            postgresql_where=text("collected_at IS NULL AND bucket IS NULL"),
        ),
    )
