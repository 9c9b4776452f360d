"""What the API process reads from its environment, once, in `main`."""

from datetime import timedelta
from typing import Literal

from pydantic_settings import BaseSettings, SettingsConfigDict

from jobs.settings import (
    BrokerSettings,
    DatabaseSettings,
    Group,
    LeaseSettings,
    SecretsSettings,
    StorageSettings,
    WebhookSettings,
)


class LimitSettings(Group):
    """What one request may ask of this process."""

    file_bytes: int = 2**30
    json_bytes: int = 11 * 10**6  # a line of a file may have 10 MB
    uploads_at_once: int = 16
    upload_silence: timedelta = timedelta(seconds=60)  # of a client that sends nothing more
    # For so long a revoked key may still open, and a changed limit be as it was.
    keys_remembered: timedelta = timedelta(seconds=5)


class LogSettings(Group):
    format: Literal["plain", "json"] = "plain"


class ApiSettings(BaseSettings):
    model_config = SettingsConfigDict(
        env_nested_delimiter="__", frozen=True, extra="ignore", env_ignore_empty=True
    )

    database: DatabaseSettings
    broker: BrokerSettings
    storage: StorageSettings
    secrets: SecretsSettings
    webhooks: WebhookSettings = WebhookSettings()
    leases: LeaseSettings = LeaseSettings()
    limits: LimitSettings = LimitSettings()
    logs: LogSettings = LogSettings()
