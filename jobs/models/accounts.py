"""Whose work it is, by which key, on which models."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, ForeignKey, Index, LargeBinary, Text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.base import BUSY_TABLE, Base, created_at_now, uuid_key


class Tenant(Base):
    __tablename__ = "tenants"

    id: Mapped[UUID] = uuid_key()
    name: Mapped[str] = mapped_column(unique=True)
    weight: Mapped[float] = mapped_column(server_default="1")  # its share of the fair queue
    webhook_secret: Mapped[bytes] = mapped_column(LargeBinary)  # encrypted, see jobs/secrets.py
    # Where else in S3 its files may lie: `s3://bucket/folder/`, see jobs/locations.py.
    allowed_prefixes: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default="{}")
    # What it may have at one time, see jobs/quotas.py; null: as much as it likes.
    max_queued_requests: Mapped[int | None] = mapped_column(BigInteger)
    max_queued_tokens: Mapped[int | None] = mapped_column(BigInteger)
    max_active_batches: Mapped[int | None] = mapped_column(BigInteger)
    max_storage_bytes: Mapped[int | None] = mapped_column(BigInteger)
    max_requests_per_second: Mapped[float | None]
    created_at: Mapped[datetime] = created_at_now()

    __table_args__ = (
        CheckConstraint("weight > 0", name="weight"),
        CheckConstraint("max_requests_per_second > 0", name="rate"),
    )


class RateBucket(Base):
    """The calls that a tenant with a rate still has: filled by time, one taken by each call."""

    __tablename__ = "rate_buckets"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id), primary_key=True)
    level: Mapped[float]
    filled_at: Mapped[datetime] = created_at_now()

    __table_args__ = (BUSY_TABLE,)


class Turn(Base):
    """When one of a tenant's batches was last begun to be planned, and one to be finalized.  Apart
    from its tenant's row, which admissions lock."""

    __tablename__ = "turns"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id), primary_key=True)
    planned_at: Mapped[datetime | None]
    finalized_at: Mapped[datetime | None]

    __table_args__ = (BUSY_TABLE,)


class ApiKey(Base):
    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)  # the public half of the key
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    name: Mapped[str]
    secret_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    admin: Mapped[bool] = mapped_column(server_default="false")  # may open the dashboard
    created_at: Mapped[datetime] = created_at_now()
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class Model(Base):
    """A model that jobs may name.  A worker adds its own as it starts; the row stays."""

    __tablename__ = "models"

    name: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = created_at_now()


class IdempotencyKey(Base):
    """The first answer to a creating POST, given again for 24 hours."""

    __tablename__ = "idempotency_keys"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request_sha256: Mapped[str]
    response: Mapped[str]
    created_at: Mapped[datetime] = created_at_now()

    __table_args__ = (Index(None, "created_at"),)
