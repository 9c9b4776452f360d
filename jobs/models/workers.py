"""Who works: one row for each start of a process."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey
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
    resigned: Mapped[bool] = mapped_column(server_default="false")  # its process did not die of it
    died: Mapped[bool] = mapped_column(server_default="false")  # somebody saw it
    stats: Mapped[dict[str, Any]] = mapped_column(server_default="{}")  # for the dashboard alone

    __table_args__ = (BUSY_TABLE,)


class RollCall(Base):
    """One row: when the dead were last looked for, and the last while in which nobody could.

    A beat that lapsed in that while says nothing of its worker, see jobs/rescue.py.
    """

    __tablename__ = "roll_call"

    id: Mapped[bool] = mapped_column(primary_key=True, server_default="true")
    called_at: Mapped[datetime]
    away_from: Mapped[datetime | None]
    away_until: Mapped[datetime | None]

    __table_args__ = (CheckConstraint("id", name="single"), BUSY_TABLE)
