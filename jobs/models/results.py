"""Finished rows, append-only: the segments in S3 and where each line lies."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.base import Base, created_at_now
from jobs.models.jobs import Job


class Segment(Base):
    """An S3 object with some finished results of a job, in the order in which they finished."""

    __tablename__ = "segments"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id))
    # A shard's, without a key that every deleted shard would search for; null: the planner's own.
    shard_id: Mapped[int | None] = mapped_column(BigInteger)
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
    # The transaction it came with.  Below the oldest that still runs, nothing is added any more.
    written_by: Mapped[int] = mapped_column(
        BigInteger, server_default=text("pg_current_xact_id()::text::bigint")
    )

    __table_args__ = (Index(None, "job_id", "shard_id"), Index(None, "job_id", "written_by", "id"))


class Result(Base):
    """Where one finished line lies: `length` bytes from `start` in its segment."""

    __tablename__ = "results"

    job_id: Mapped[UUID] = mapped_column(ForeignKey(Job.id), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True)
    segment_id: Mapped[int] = mapped_column(BigInteger)  # written by the same statement
    ok: Mapped[bool]
    start: Mapped[int] = mapped_column(BigInteger)
    length: Mapped[int]
