"""Which database a command means: the environment's, or that of the stack in a data directory."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from cli import up_file
from cli.errors import CommandFailed
from cli.servers.embedded import Identity
from cli.settings import CommandSettings
from jobs.database import Sessions, connect, sessions_of
from jobs.secrets import Secrets
from jobs.settings import StorageSettings, read
from jobs.storage import Storage

_OF_A_DEPLOYMENT = "set DATABASE__URL and SECRETS__KEY to those of your deployment"


def database_url(data_dir: Path) -> str:
    settings = read(CommandSettings)
    if settings.database is not None:
        return settings.database.url.get_secret_value()
    url: str = _running(data_dir)["database_url"]
    return url


def api_access(data_dir: Path) -> tuple[str, str, str]:
    """The address and key of a running stack's API, and what stays the stack's own at each start:
    its port may be another tomorrow."""
    facts = _running(data_dir, otherwise="give --base-url and --api-key")
    return facts["api_url"], facts["api_key"], facts["storage"]["access_key"]


@contextmanager
def connected(data_dir: Path) -> Iterator[Sessions]:
    """That database, until the `with` ends."""
    engine = connect(database_url(data_dir), pool_size=1)
    try:
        yield sessions_of(engine)
    finally:
        engine.dispose()


@contextmanager
def transaction(data_dir: Path) -> Iterator[Session]:
    """One transaction in that database."""
    with connected(data_dir) as sessions, sessions.begin() as session:
        yield session


def secrets(data_dir: Path) -> Secrets:
    settings = read(CommandSettings)
    if settings.secrets is not None:
        return Secrets(*settings.secrets.both)
    _running(data_dir)
    return Secrets(Identity.of(data_dir).server_key)


def storage(data_dir: Path) -> Storage | None:
    """The deployment's own bucket; None where the environment names its database alone."""
    settings = read(CommandSettings)
    if settings.storage is not None:
        return Storage(settings.storage)
    if settings.database is not None:
        return None
    return Storage(StorageSettings.model_validate(_running(data_dir)["storage"]))


def _running(data_dir: Path, *, otherwise: str = _OF_A_DEPLOYMENT) -> dict[str, Any]:
    facts = data_dir / up_file.NAME
    if not facts.exists():
        raise CommandFailed(
            f"no stack runs in {data_dir}; start one with `gristmill up`, name another with"
            f" --data-dir, or {otherwise}"
        )
    try:
        told: dict[str, Any] = json.loads(facts.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandFailed(f"{facts} is not what `gristmill up` writes: {error}") from error
    return told
