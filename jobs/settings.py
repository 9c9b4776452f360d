"""The groups of settings that every process shares.

Each process composes the ones it needs into its own frozen class and reads the environment once,
in `main` (`DATABASE__URL`, `BROKER__URL`, `STORAGE__…`).  Domain code takes values, never settings.
"""

from datetime import timedelta
from typing import Self, TypeVar

from cryptography.fernet import Fernet
from pydantic import (
    BaseModel,
    ConfigDict,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

SettingsT = TypeVar("SettingsT", bound=BaseSettings)

# Where pydantic's own words for a kind of fault would not help.
_WORDS = {"time_delta_parsing": "write it like PT20S or PT5M"}


class SettingsUnusable(Exception):
    """One sentence that names the variables at fault, and no value of theirs."""


def read(kind: type[SettingsT]) -> SettingsT:
    """Read a process's settings from its environment.  Raises SettingsUnusable."""
    try:
        return kind()
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
    told = ", ".join(name for fault in faults for name in _told(kind, fault))
    raise SettingsUnusable(f"Set these in the environment: {told}.")


def _told(kind: type[BaseSettings], fault: ErrorDetails) -> list[str]:
    """The variables at fault, each with what is wrong; of a missing group, all that it needs."""
    names = [str(part) for part in fault["loc"]]
    if fault["type"] == "missing" and len(names) == 1:
        group = kind.model_fields[names[0]].annotation
        if isinstance(group, type) and issubclass(group, BaseModel):
            needed = [name for name, field in group.model_fields.items() if field.is_required()]
            return [_said([*names, name], fault["msg"]) for name in needed]
    return [_said(names, _WORDS.get(fault["type"], fault["msg"]))]


def _said(names: list[str], what: str) -> str:
    return f"{'__'.join(names).upper()} ({what.removeprefix('Value error, ')})"


class Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_POSTGRES = "postgresql+psycopg"  # with the driver, as SQLAlchemy wants it
_POSTGRES_WITHOUT_DRIVER = ("postgres", "postgresql")  # as the rest of the world writes it


class DatabaseSettings(Group):
    url: SecretStr  # postgresql+psycopg://user:password@host:port/name

    @field_validator("url")
    @classmethod
    def _names_our_driver(cls, url: SecretStr) -> SecretStr:
        try:
            parts = make_url(url.get_secret_value())
        except (ArgumentError, ValueError):  # the latter: a port that is no number
            parts = None
        if parts is None or parts.drivername not in (_POSTGRES, *_POSTGRES_WITHOUT_DRIVER):
            raise ValueError(f"write it like {_POSTGRES}://user:password@host:5432/name")
        whole = parts.set(drivername=_POSTGRES).render_as_string(hide_password=False)
        return SecretStr(whole)


class BrokerSettings(Group):
    url: SecretStr  # redis://:password@host:port/0


class StorageSettings(Group):
    endpoint: str | None = None  # None: Amazon's own
    region: str = "us-east-1"
    bucket: str
    access_key: str
    secret_key: SecretStr


class SecretsSettings(Group):
    key: SecretStr  # the same on every process of a deployment
    other_key: SecretStr | None = None  # read as well, while one takes the other's place

    @field_validator("key", "other_key")
    @classmethod
    def _is_server_key(cls, key: SecretStr | None) -> SecretStr | None:
        try:
            if key is not None:
                Fernet(key.get_secret_value())
        except ValueError:
            raise ValueError("no server key; `gristmill keys server-key` makes one") from None
        return key

    @property
    def both(self) -> tuple[str, str | None]:
        """As `Secrets` takes them."""
        other = None if self.other_key is None else self.other_key.get_secret_value()
        return self.key.get_secret_value(), other


class WebhookSettings(Group):
    allow_private: bool = False  # also http:// and addresses that are not public


class LeaseSettings(Group):
    """How long a silence means a death.  Every decision is the database's clock's."""

    beat_interval: timedelta = timedelta(seconds=4)
    ttl: timedelta = timedelta(seconds=20)
    fence_after: timedelta = timedelta(seconds=15)  # a silent worker stops by itself
    sweep_interval: timedelta = timedelta(seconds=3)

    @model_validator(mode="after")
    def _are_in_order(self) -> Self:
        if not self.beat_interval < self.fence_after < self.ttl:
            raise ValueError("beat_interval < fence_after < ttl must hold")
        if self.sweep_interval * 3 > self.ttl / 2:
            raise ValueError("sweep_interval may be a sixth of ttl at most")
        return self
