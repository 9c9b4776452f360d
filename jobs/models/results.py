"""Finished rows, append-only: the segments in S3 and where each line lies."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.base import Base, created_at_now
from jobs.models.jobs import Job
from jobs.models.shards import Shard


class Segment(Base):
    """An S3 object with some finished results of a job, in the order in which they finished."""

    __tablename__ = "segments"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id))
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
    created_at: Mapped[datetime] = created_at_now()

    __table_args__ = (Index(None, "job_id", "shard_id"),)


class Result(Base):
    """Where one finished line lies: `length` bytes from `start` in its segment."""

    __tablename__ = "results"

    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    segment_id: Mapped[int] = mapped_column(ForeignKey(Segment.id))
    ok: Mapped[bool]
    start: Mapped[int] = mapped_column(BigInteger)
    length: Mapped[int]
