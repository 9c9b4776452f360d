"""What the command line takes from its environment."""

import os

from pydantic_settings import BaseSettings, SettingsConfigDict

from jobs.settings import DatabaseSettings, LeaseSettings, SecretsSettings, StorageSettings


class CommandSettings(BaseSettings):
    """By which `migrate`, `keys`, `tenants` and `top` find a deployment; empty where `gristmill up`
    runs it."""

    model_config = SettingsConfigDict(env_nested_delimiter="__", frozen=True, extra="ignore")

    database: DatabaseSettings | None = None
    secrets: SecretsSettings | None = None
    storage: StorageSettings | None = None
    leases: LeaseSettings = LeaseSettings()


def inherited() -> dict[str, str]:
    """What a child takes over: all of it, but no proxy between it and this machine's servers."""
    environment = dict(os.environ)
    for name in ("NO_PROXY", "no_proxy"):
        environment[name] = ",".join(filter(None, [environment.get(name), "127.0.0.1"]))
    return environment
