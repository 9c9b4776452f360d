"""Where a tenant's events go on their own, and who of them does not answer just now."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, CheckConstraint, ForeignKey, Index, LargeBinary, Text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.accounts import Tenant
from jobs.models.base import Base, created_at_now, uuid_key


class WebhookEndpoint(Base):
    """An address that is told of every event of certain types, signed with its own secret.

    A deleted one keeps its row, for deliveries and cursors name it; its secrets are emptied.
    """

    __tablename__ = "webhook_endpoints"

    id: Mapped[UUID] = uuid_key()
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    name: Mapped[str]
    url: Mapped[str]
    event_types: Mapped[list[str]] = mapped_column(ARRAY(Text))
    secret: Mapped[bytes] = mapped_column(LargeBinary)  # encrypted, see jobs/secrets.py
    # The secret before, which signs too until then.
    old_secret: Mapped[bytes | None] = mapped_column(LargeBinary)
    old_secret_until: Mapped[datetime | None]
    created_at: Mapped[datetime] = created_at_now()
    updated_at: Mapped[datetime] = created_at_now()
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None]
    deleted_at: Mapped[datetime | None]

    __table_args__ = (
        CheckConstraint("(old_secret IS NULL) = (old_secret_until IS NULL)", name="rotation"),
        CheckConstraint("(disabled_at IS NULL) = (disabled_reason IS NULL)", name="disabled"),
        Index(None, "tenant_id", "created_at", "id"),
    )


class WebhookTarget(Base):
    """An endpoint or a host whose last attempt failed; its row goes with the next 2xx."""

    __tablename__ = "webhook_targets"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id), primary_key=True)
    target: Mapped[str] = mapped_column(primary_key=True)
    failures: Mapped[int]  # since the last 2xx
    failing_since: Mapped[datetime] = created_at_now()
    open_until: Mapped[datetime | None]  # nothing is sent before: the breaker is open
