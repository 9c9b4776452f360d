"""What a client submitted: one request, or a file of them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.accounts import Model, Tenant
from jobs.models.base import BUSY_TABLE, Base, created_at_now, uuid_key
from jobs.models.files import File
from jobs.models.states import JobKind, JobState, OnInvalidLine
from jobs.models.workers import Worker


class Job(Base):
    __tablename__ = "jobs"

    id: Mapped[UUID] = uuid_key()
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    kind: Mapped[JobKind]
    state: Mapped[JobState]
    ends_as: Mapped[JobState | None]  # why it is stopping; its terminal state to be
    owner: Mapped[UUID | None] = mapped_column(ForeignKey(Worker.incarnation))
    attempt: Mapped[int] = mapped_column(server_default="0")
    not_before: Mapped[datetime] = mapped_column(server_default=func.now())  # of the next lease
    deaths: Mapped[int] = mapped_column(server_default="0")  # of processes that had leased it

    endpoint: Mapped[str]
    model: Mapped[str | None] = mapped_column(ForeignKey(Model.name))  # a batch's: known once read
    interactive: Mapped[bool] = mapped_column(server_default="false")
    paused: Mapped[bool] = mapped_column(server_default="false")
    hastened: Mapped[bool] = mapped_column(server_default="false")  # for its deadline's sake
    input_file_id: Mapped[UUID | None] = mapped_column(ForeignKey(File.id))
    # Earlier batches of this tenant, which may have been deleted since.
    retry_of: Mapped[UUID | None]  # whose failed rows these are
    reuse_from: Mapped[UUID | None]  # whose results equal rows take
    on_invalid_line: Mapped[OnInvalidLine] = mapped_column(server_default="fail")
    completion_window: Mapped[str | None]
    output_expires_after: Mapped[int | None]  # seconds
    output_prefix: Mapped[str | None]  # what the addresses of its files begin with, if not ours
    webhook_url: Mapped[str | None]
    metadata_: Mapped[dict[str, Any] | None] = mapped_column("metadata")

    created_at: Mapped[datetime] = created_at_now()
    in_progress_at: Mapped[datetime | None]
    finalizing_at: Mapped[datetime | None]
    damaged_since: Mapped[datetime | None]  # some of its results cannot be read
    cancelling_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    expires_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]  # by its owner; the sweeper takes the rest away
    purged_at: Mapped[datetime | None]  # nothing is left of it but this row

    # What it counts for in its tenant's quotas until it ends: an estimate until it is planned.
    reserved_requests: Mapped[int] = mapped_column(server_default="0")
    reserved_tokens: Mapped[int] = mapped_column(BigInteger, server_default="0")

    errors: Mapped[list[dict[str, Any]] | None]  # what validation found
    total: Mapped[int] = mapped_column(server_default="0")
    # Frozen when the job becomes terminal.  While it runs, sum its segments.
    completed: Mapped[int] = mapped_column(server_default="0")
    failed: Mapped[int] = mapped_column(server_default="0")
    input_tokens: Mapped[int] = mapped_column(BigInteger, server_default="0")
    cached_tokens: Mapped[int] = mapped_column(BigInteger, server_default="0")
    output_tokens: Mapped[int] = mapped_column(BigInteger, server_default="0")
    output_file_id: Mapped[UUID | None] = mapped_column(ForeignKey(File.id))
    error_file_id: Mapped[UUID | None] = mapped_column(ForeignKey(File.id))

    __table_args__ = (
        CheckConstraint(
            "(state IN ('completed', 'failed', 'cancelled', 'expired'))"
            " = (finished_at IS NOT NULL)",
            name="terminal",
        ),
        CheckConstraint("owner IS NULL OR state IN ('validating', 'finalizing')", name="leased"),
        CheckConstraint("state <> 'stopping' OR ends_as IS NOT NULL", name="stopping"),
        CheckConstraint("(kind = 'batch') = (input_file_id IS NOT NULL)", name="input"),
        Index(None, "tenant_id", "kind", "created_at", "id"),
        Index(
            "jobs_open",
            "kind",
            "state",
            "created_at",
            postgresql_where=text("state NOT IN ('completed', 'failed', 'cancelled', 'expired')"),
        ),
        Index(
            "jobs_reserved",
            "tenant_id",
            "kind",
            postgresql_include=["reserved_requests", "reserved_tokens"],
            postgresql_where=text("state NOT IN ('completed', 'failed', 'cancelled', 'expired')"),
        ),
        Index(
            "jobs_deleted",
            "id",
            postgresql_where=text("deleted_at IS NOT NULL AND purged_at IS NULL"),
        ),
        Index("jobs_purged", "purged_at", postgresql_where=text("purged_at IS NOT NULL")),
        Index(
            "jobs_expiring",
            "expires_at",
            postgresql_where=text("state IN ('queued', 'validating', 'in_progress')"),
        ),
        Index(
            "jobs_unhurried",
            "expires_at",
            postgresql_where=text("state = 'in_progress' AND NOT interactive AND NOT hastened"),
        ),
        Index("jobs_owner", "owner", postgresql_where=text("owner IS NOT NULL")),
        BUSY_TABLE,
    )


class Request(Base):
    """One line of a batch's file.  `index` counts requests, `line` counts physical lines."""

    __tablename__ = "requests"

    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    line: Mapped[int]
    custom_id: Mapped[str | None]  # null where it could not be read or is a duplicate
    body_digest: Mapped[UUID | None]  # of a line that can run: equal for equal bodies
