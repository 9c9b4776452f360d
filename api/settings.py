"""What the API process reads from its environment, once, in `main`."""

from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobs.settings import (
    BrokerSettings,
    DatabaseSettings,
    LeaseSettings,
    SecretsSettings,
    StorageSettings,
)


class WebhookSettings(BaseModel):
    model_config = ConfigDict(frozen=True)

    allow_private: bool = False  # also http:// and addresses of this network: for tests and `up`


class LimitSettings(BaseModel):
    """What one request may ask of this process."""

    model_config = ConfigDict(frozen=True)

    file_bytes: int = 2**30
    json_bytes: int = 11 * 10**6  # a line of a file may have 10 MB
    uploads_at_once: int = 16
    upload_silence: timedelta = timedelta(seconds=60)  # of a client that sends nothing more


class LogSettings(BaseModel):
    model_config = ConfigDict(frozen=True)

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
