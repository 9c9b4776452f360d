"""What each worker program reads from the environment, once, in its `main`."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobs.lines import MAX_LINE_BYTES, MAX_LINES
from jobs.references import MAX_BYTES
from jobs.settings import (
    BrokerSettings,
    DatabaseSettings,
    Group,
    LeaseSettings,
    SecretsSettings,
    StorageSettings,
    WebhookSettings,
)


class EngineKind(StrEnum):
    REAL = "real"
    ECHO = "echo"


class ModelSettings(Group):
    name: str  # what jobs call it
    path: str = ""  # a folder, a .gguf file or a bundled model's name; empty: the name itself
    engine: EngineKind = EngineKind.REAL
    max_model_len: int | None = None
    kv_cache_bytes: int | None = None


class MetricsSettings(Group):
    host: str = "127.0.0.1"
    port: int | None = None  # none: no metrics server


class DrainSettings(Group):
    grace: timedelta = timedelta(seconds=30)  # for leased shards, after SIGTERM


class WatchdogSettings(Group):
    """How long one engine step may take before the process is replaced."""

    hang_after: timedelta = timedelta(seconds=120)


class DropSettings(Group):
    look_every: timedelta = timedelta(seconds=10)  # into each drop folder
    file_bytes: Annotated[int, Field(ge=1)] = MAX_BYTES  # larger files are left alone


class BatchSettings(Group):
    """How much one batch's file may hold."""

    lines: Annotated[int, Field(ge=1, lt=2**31)] = MAX_LINES
    line_bytes: Annotated[int, Field(ge=1)] = MAX_LINE_BYTES


class WorkerSettings(BaseSettings):
    """Both programs'."""

    model_config = SettingsConfigDict(
        env_nested_delimiter="__", frozen=True, extra="ignore", env_ignore_empty=True
    )

    database: DatabaseSettings
    broker: BrokerSettings
    storage: StorageSettings
    secrets: SecretsSettings
    leases: LeaseSettings = LeaseSettings()
    metrics: MetricsSettings = MetricsSettings()


class ControlSettings(WorkerSettings):
    webhooks: WebhookSettings = WebhookSettings()
    drops: DropSettings = DropSettings()
    batches: BatchSettings = BatchSettings()
    threads: Annotated[int, Field(ge=1)] = 4


class InferenceSettings(WorkerSettings):
    model: ModelSettings
    drain: DrainSettings = DrainSettings()
    watchdog: WatchdogSettings = WatchdogSettings()
