"""What every table shares: names of constraints, types, and room for updates."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import DateTime, Enum, MetaData, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from jobs.models.states import (
    DeliveryState,
    JobKind,
    JobState,
    OnInvalidLine,
    ShardState,
    UploadState,
    WorkerKind,
)

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
        UploadState: _enum(UploadState, "upload_state"),
    }


def uuid_key() -> Mapped[UUID]:
    return mapped_column(primary_key=True, server_default=text("gen_random_uuid()"))


def created_at_now() -> Mapped[datetime]:
    return mapped_column(server_default=func.now())
