"""The unit of claiming, and the fair queue's clocks that order it."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.accounts import Model, Tenant
from jobs.models.base import BUSY_TABLE, Base
from jobs.models.jobs import Job
from jobs.models.states import ShardState
from jobs.models.workers import Worker


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
    paused: Mapped[bool] = mapped_column(server_default="false")  # as its job is: not to be claimed

    # The input: one S3 object, of which this shard runs the lines [first_line, end_line); or, for
    # a single request's job, the line itself (text, for jsonb refuses U+0000).
    input_key: Mapped[str | None]
    first_line: Mapped[int] = mapped_column(server_default="0")
    end_line: Mapped[int]
    inline: Mapped[str | None]
    input_sha256: Mapped[str | None]  # of the whole object
    damaged_since: Mapped[datetime | None]  # the object is gone, or not what was written

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
            postgresql_where=text("state = 'queued' AND NOT paused"),
        ),
        Index("shards_owner", "owner", postgresql_where=text("owner IS NOT NULL")),
        Index(
            "shards_open",
            "job_id",
            postgresql_where=text("state IN ('queued', 'leased', 'suspect')"),
        ),
        Index("shards_suspect", "id", postgresql_where=text("state = 'suspect'")),
        BUSY_TABLE,
    )


class FairQueue(Base):
    """Start-time fair queueing, a row per model: the highest stamp ever given, and how far virtual
    time has come."""

    __tablename__ = "fair_queues"

    model: Mapped[str] = mapped_column(ForeignKey(Model.name), primary_key=True)
    highest_stamp: Mapped[float] = mapped_column(server_default="0")
    present: Mapped[float] = mapped_column(server_default="0")


class FairShare(Base):
    """Where a tenant's work on a model ends in virtual time."""

    __tablename__ = "fair_shares"

    model: Mapped[str] = mapped_column(ForeignKey(Model.name), primary_key=True)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey(Tenant.id), primary_key=True)
    last_finish: Mapped[float] = mapped_column(server_default="0")
    last_hastened: Mapped[float] = mapped_column(server_default="0")  # of its urgent lane
