"""Files, whose bytes lie in S3."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Index
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
    created_at: Mapped[datetime] = created_at_now()
    expires_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]

    __table_args__ = (Index(None, "tenant_id", "created_at", "id"),)
