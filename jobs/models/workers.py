"""Who works: one row for each start of a process."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from jobs.models.accounts import Model
from jobs.models.base import BUSY_TABLE, Base, created_at_now
from jobs.models.states import WorkerKind


class Worker(Base):
    """One start of one process.  Its single beat renews every lease that names it as owner."""

    __tablename__ = "workers"

    incarnation: Mapped[UUID] = mapped_column(primary_key=True)
    kind: Mapped[WorkerKind]
    model: Mapped[str | None] = mapped_column(ForeignKey(Model.name))
    host: Mapped[str]
    pid: Mapped[int]
    started_at: Mapped[datetime] = created_at_now()
    beat_until: Mapped[datetime]
    progress: Mapped[int] = mapped_column(BigInteger, server_default="0")  # engine steps
    draining: Mapped[bool] = mapped_column(server_default="false")
    stats: Mapped[dict[str, Any]] = mapped_column(server_default="{}")  # for the dashboard alone

    __table_args__ = (BUSY_TABLE,)
