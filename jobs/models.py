"""The tables: what a job is, where its rows stand, and who works on them.

`requests`, `segments` and `results` are append-only; `shards` and `jobs` are the small tables that
change.  The laws of state stand here as CHECK constraints, and each hot query has its index.
The states of a job and of a shard are drawn in docs/architecture.md.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Enum,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMING = {
    "ix": "%(table_name)s_%(column_0_N_name)s",
    "uq": "%(table_name)s_%(column_0_N_name)s_key",
    "ck": "%(table_name)s_%(constraint_name)s_check",
    "fk": "%(table_name)s_%(column_0_name)s_fkey",
    "pk": "%(table_name)s_pkey",
}

# The tables that change are vacuumed early, and keep room on each page for HOT updates.
BUSY_TABLE = {
    "postgresql_with": {
        "fillfactor": "80",
        "autovacuum_vacuum_scale_factor": "0.01",
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_vacuum_cost_delay": "0",
    }
}


class JobKind(StrEnum):
    REQUEST = "request"
    BATCH = "batch"


class JobState(StrEnum):
    QUEUED = "queued"
    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    STOPPING = "stopping"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


TERMINAL_STATES = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED)


class OnInvalidLine(StrEnum):
    FAIL = "fail"
    SKIP = "skip"


class ShardState(StrEnum):
    QUEUED = "queued"
    LEASED = "leased"
    SUSPECT = "suspect"  # its worker died while it ran alone; the sweeper settles it
    DONE = "done"
    CANCELLED = "cancelled"
    SPLIT = "split"  # two shards over its halves stand in its place


class WorkerKind(StrEnum):
    CONTROL = "control"
    INFERENCE = "inference"


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


def _enum(states: type[StrEnum], name: str) -> Enum:
    return Enum(states, name=name, values_callable=lambda kinds: [kind.value for kind in kinds])


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads this name from the class
        datetime: DateTime(timezone=True),
        str: Text(),
        dict[str, Any]: JSONB(none_as_null=True),
        list[dict[str, Any]]: JSONB(none_as_null=True),
        JobKind: _enum(JobKind, "job_kind"),
        JobState: _enum(JobState, "job_state"),
        OnInvalidLine: _enum(OnInvalidLine, "on_invalid_line"),
        ShardState: _enum(ShardState, "shard_state"),
        WorkerKind: _enum(WorkerKind, "worker_kind"),
        DeliveryState: _enum(DeliveryState, "delivery_state"),
    }


def _uuid_key() -> Mapped[UUID]:
    return mapped_column(primary_key=True, server_default=text("gen_random_uuid()"))


def _created_at() -> Mapped[datetime]:
    return mapped_column(server_default=func.now())


class Tenant(Base):
    __tablename__ = "tenants"

    id: Mapped[UUID] = _uuid_key()
    name: Mapped[str] = mapped_column(unique=True)
    weight: Mapped[float] = mapped_column(server_default="1")  # its share of the fair queue
    webhook_secret: Mapped[bytes] = mapped_column(LargeBinary)  # encrypted, see jobs/secrets.py
    created_at: Mapped[datetime] = _created_at()

    __table_args__ = (CheckConstraint("weight > 0", name="weight"),)


class ApiKey(Base):
    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)  # the public half of the key
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    name: Mapped[str]
    secret_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    admin: Mapped[bool] = mapped_column(server_default="false")  # may open the dashboard
    created_at: Mapped[datetime] = _created_at()
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class Model(Base):
    """A model that jobs may name.  A worker adds its own as it starts; the row stays."""

    __tablename__ = "models"

    name: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = _created_at()


class File(Base):
    __tablename__ = "files"

    id: Mapped[UUID] = _uuid_key()
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    filename: Mapped[str]
    purpose: Mapped[str]
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    lines: Mapped[int]
    storage_key: Mapped[str]
    created_at: Mapped[datetime] = _created_at()
    expires_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]

    __table_args__ = (Index(None, "tenant_id", "created_at", "id"),)


class Worker(Base):
    """One start of one process.  Its single beat renews every lease that names it as owner."""

    __tablename__ = "workers"

    incarnation: Mapped[UUID] = mapped_column(primary_key=True)
    kind: Mapped[WorkerKind]
    model: Mapped[str | None] = mapped_column(ForeignKey(Model.name))
    host: Mapped[str]
    pid: Mapped[int]
    started_at: Mapped[datetime] = _created_at()
    beat_until: Mapped[datetime]
    progress: Mapped[int] = mapped_column(BigInteger, server_default="0")  # engine steps
    draining: Mapped[bool] = mapped_column(server_default="false")
    stats: Mapped[dict[str, Any]] = mapped_column(server_default="{}")  # for the dashboard alone

    __table_args__ = (BUSY_TABLE,)


class Job(Base):
    __tablename__ = "jobs"

    id: Mapped[UUID] = _uuid_key()
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id))
    kind: Mapped[JobKind]
    state: Mapped[JobState]
    ends_as: Mapped[JobState | None]  # why it is stopping; its terminal state to be
    owner: Mapped[UUID | None] = mapped_column(ForeignKey(Worker.incarnation))
    attempt: Mapped[int] = mapped_column(server_default="0")

    endpoint: Mapped[str]
    model: Mapped[str | None] = mapped_column(ForeignKey(Model.name))  # a batch's: known once read
    interactive: Mapped[bool] = mapped_column(server_default="false")
    input_file_id: Mapped[UUID | None] = mapped_column(ForeignKey(File.id))
    on_invalid_line: Mapped[OnInvalidLine] = mapped_column(server_default="fail")
    completion_window: Mapped[str | None]
    output_expires_after: Mapped[int | None]  # seconds
    webhook_url: Mapped[str | None]
    metadata_: Mapped[dict[str, Any] | None] = mapped_column("metadata")

    created_at: Mapped[datetime] = _created_at()
    in_progress_at: Mapped[datetime | None]
    finalizing_at: Mapped[datetime | None]
    cancelling_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    expires_at: Mapped[datetime]

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


class Shard(Base):
    __tablename__ = "shards"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id))
    model: Mapped[str] = mapped_column(ForeignKey(Model.name))
    state: Mapped[ShardState] = mapped_column(server_default="queued")
    owner: Mapped[UUID | None] = mapped_column(ForeignKey(Worker.incarnation))
    attempt: Mapped[int] = mapped_column(server_default="0")

    interactive: Mapped[bool] = mapped_column(server_default="false")
    stamp: Mapped[float]
    cost: Mapped[int] = mapped_column(BigInteger)  # bytes / 4 + max_tokens, summed over its rows
    prefix_key: Mapped[str | None]
    not_before: Mapped[datetime] = mapped_column(server_default=func.now())

    # The input: one S3 object, of which this shard runs the lines [first_line, end_line); or, for
    # a single request's job, the line itself (text, for jsonb refuses U+0000).
    input_key: Mapped[str | None]
    first_line: Mapped[int] = mapped_column(server_default="0")
    end_line: Mapped[int]
    inline: Mapped[str | None]

    # Poison.  `solo` shards are claimed by themselves; `alone` says that this one now has an engine
    # to itself, so that a death is its own doing.
    solo: Mapped[bool] = mapped_column(server_default="false")
    alone: Mapped[bool] = mapped_column(server_default="false")
    crashes: Mapped[int] = mapped_column(server_default="0")
    deaths_alone: Mapped[int] = mapped_column(server_default="0")

    __table_args__ = (
        CheckConstraint("(state = 'leased') = (owner IS NOT NULL)", name="leased"),
        CheckConstraint("(input_key IS NULL) <> (inline IS NULL)", name="input"),
        CheckConstraint("first_line < end_line", name="lines"),
        Index(
            "shards_line",
            "model",
            text("interactive DESC"),
            "stamp",
            "id",
            postgresql_where=text("state = 'queued'"),
        ),
        Index("shards_owner", "owner", postgresql_where=text("state = 'leased'")),
        Index(
            "shards_open",
            "job_id",
            postgresql_where=text("state IN ('queued', 'leased', 'suspect')"),
        ),
        Index("shards_suspect", "id", postgresql_where=text("state = 'suspect'")),
        BUSY_TABLE,
    )


class Segment(Base):
    """An S3 object with some finished results of a job, in the order in which they finished."""

    __tablename__ = "segments"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id), index=True)
    shard_id: Mapped[int | None] = mapped_column(ForeignKey(Shard.id))  # null: validation's own
    attempt: Mapped[int]
    storage_key: Mapped[str]
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    ok: Mapped[int]
    failed: Mapped[int]
    last_index: Mapped[int]
    input_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    output_tokens: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = _created_at()


class Result(Base):
    """Where one finished line lies: `length` bytes from `start` in its segment."""

    __tablename__ = "results"

    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    segment_id: Mapped[int] = mapped_column(ForeignKey(Segment.id))
    ok: Mapped[bool]
    start: Mapped[int] = mapped_column(BigInteger)
    length: Mapped[int]


class FairQueue(Base):
    """Start-time fair queueing, a row per model: the highest stamp ever given."""

    __tablename__ = "fair_queues"

    model: Mapped[str] = mapped_column(ForeignKey(Model.name), primary_key=True)
    highest_stamp: Mapped[float] = mapped_column(server_default="0")


class FairShare(Base):
    """Where a tenant's work on a model ends in virtual time."""

    __tablename__ = "fair_shares"

    model: Mapped[str] = mapped_column(ForeignKey(Model.name), primary_key=True)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id), primary_key=True)
    last_finish: Mapped[float] = mapped_column(server_default="0")


class Event(Base):
    """What happened, once: the terminal event of a job.  `payload` is signed byte for byte."""

    __tablename__ = "events"

    id: Mapped[UUID] = _uuid_key()
    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id), unique=True)
    type: Mapped[str]
    payload: Mapped[str]
    created_at: Mapped[datetime] = _created_at()


class Delivery(Base):
    """One webhook to be sent to one URL, with its own attempts and its own lease."""

    __tablename__ = "deliveries"

    id: Mapped[UUID] = _uuid_key()
    event_id: Mapped[UUID] = mapped_column(ForeignKey(Event.id))
    url: Mapped[str]
    state: Mapped[DeliveryState] = mapped_column(server_default="pending")
    owner: Mapped[UUID | None] = mapped_column(ForeignKey(Worker.incarnation))
    attempt: Mapped[int] = mapped_column(server_default="0")
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    created_at: Mapped[datetime] = _created_at()
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


class IdempotencyKey(Base):
    """The first answer to a creating POST, given again for 24 hours."""

    __tablename__ = "idempotency_keys"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request_sha256: Mapped[str]
    response: Mapped[str]
    created_at: Mapped[datetime] = _created_at()
