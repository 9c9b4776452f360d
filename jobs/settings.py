"""The groups of settings that every process shares.

Each process composes the ones it needs into its own frozen class and reads the environment once,
in `main` (`DATABASE__URL`, `BROKER__URL`, `STORAGE__…`).  Domain code takes values, never settings.
"""

from datetime import timedelta

from pydantic import BaseModel, ConfigDict, SecretStr


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DatabaseSettings(_Group):
    url: SecretStr  # postgresql+psycopg://user:password@host:port/name


class BrokerSettings(_Group):
    url: SecretStr  # redis://:password@host:port/0


class StorageSettings(_Group):
    endpoint: str | None = None  # None: Amazon's own
    region: str = "us-east-1"
    bucket: str
    access_key: str
    secret_key: SecretStr


class SecretsSettings(_Group):
    key: SecretStr  # from `gristmill keys server-key`; the same on every process of a deployment


class LeaseSettings(_Group):
    """How long a silence means a death.  Every decision is the database's clock's."""

    beat_interval: timedelta = timedelta(seconds=4)
    ttl: timedelta = timedelta(seconds=20)
    fence_after: timedelta = timedelta(seconds=15)  # a silent worker stops by itself
    sweep_interval: timedelta = timedelta(seconds=3)
