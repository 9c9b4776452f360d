"""`gristmill tenants`: what a tenant may use besides the API, its drop folders and its quotas."""

from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from sqlalchemy.orm import Session

from cli import deployment
from cli.errors import CommandFailed
from jobs import drops, keys, locations, quotas, tenants, windows
from jobs.errors import StorageUnavailable
from jobs.locations import Location
from jobs.quotas import Limits, Usage
from jobs.requests import BODIES, CHAT_COMPLETIONS
from jobs.storage import Storage

app = typer.Typer(
    help="Say where in S3 a tenant's files may lie, and how much it may have.", no_args_is_help=True
)
console = Console()

Name = Annotated[str, typer.Argument(help="The tenant's, as in `gristmill keys create --tenant`.")]
Prefix = Annotated[str, typer.Argument(help="A folder: s3://bucket/folder, or s3://bucket.")]
DataDir = Annotated[
    Path, typer.Option(help="The stack's, where the environment names no DATABASE__URL.")
]
Remove = Annotated[bool, typer.Option("--remove", help="Take it back.")]
_STANDARD_DIR = Path(".gristmill")


@app.command()
def allow(
    name: Name, prefix: Prefix, *, remove: Remove = False, data_dir: DataDir = _STANDARD_DIR
) -> None:
    """Let a tenant register files under a prefix, and have results written there."""
    folder = locations.parse_folder(prefix, param="prefix")
    if not remove:
        _refuse_own(deployment.storage(data_dir), folder)
    change = tenants.forbid if remove else tenants.allow
    with deployment.transaction(data_dir) as session:
        change(session, tenant_id=_tenant(session, name), folder=folder)
    print(f"{name} may {'no longer ' if remove else ''}use {folder}")


@app.command()
def drop(
    name: Name,
    prefix: Prefix,
    *,
    endpoint: Annotated[str, typer.Option(help="What its files run as.")] = CHAT_COMPLETIONS,
    window: Annotated[str, typer.Option(help="How long they may take, like 24h.")] = "24h",
    remove: Remove = False,
    data_dir: DataDir = _STANDARD_DIR,
) -> None:
    """Make a batch of every .jsonl object under a prefix, with its results beside it."""
    folder = locations.parse_folder(prefix, param="prefix")
    _check(endpoint, window)
    if not remove:
        _look_into(deployment.storage(data_dir), folder)
    with deployment.transaction(data_dir) as session:
        tenant_id = _tenant(session, name)
        if not remove:
            drops.put(session, tenant_id=tenant_id, folder=folder, endpoint=endpoint, window=window)
        elif not drops.end(session, tenant_id=tenant_id, folder=folder):
            raise CommandFailed(f"{folder} is no drop folder of {name}")
    print(f"{folder} is {'no longer ' if remove else ''}a drop folder of {name}")


@app.command()
def quota(
    name: Name,
    changes: Annotated[
        list[str], typer.Argument(help="queued-requests=N, queued-tokens, active-batches, …")
    ],
    *,
    data_dir: DataDir = _STANDARD_DIR,
) -> None:
    """Limit what a tenant may have at one time, or lift a limit: `storage-bytes=none`.

    The limits are queued-requests, queued-tokens, active-batches, storage-bytes
    and requests-per-second.
    """
    wanted = dict(map(_limit, changes))
    with deployment.transaction(data_dir) as session:
        tenant_id = _tenant(session, name)
        limits = replace(quotas.read_limits(session, tenant_id=tenant_id), **wanted)
        quotas.set_limits(session, tenant_id=tenant_id, limits=limits)
    print(f"{name}: {', '.join(f'{what} {limit}' for what, limit in _said(limits))}")


def _limit(change: str) -> tuple[str, Any]:
    """A change as it is written, like `active-batches=3`."""
    name, _, value = change.partition("=")
    field = name.replace("-", "_")
    if field not in {each.name for each in fields(Limits)}:
        names = ", ".join(each.name.replace("_", "-") for each in fields(Limits))
        raise CommandFailed(f"{name!r} is no limit; there are {names}")
    if value == "none":
        return field, None
    try:
        number = float(value) if field == "requests_per_second" else int(value)
    except ValueError:
        number = -1
    if not 0 <= number < 2**63 or (field == "requests_per_second" and number == 0):
        raise CommandFailed(f"{name} must be a number, like {name}=100, or {name}=none")
    return field, number


def _said(limits: Limits) -> Iterator[tuple[str, str]]:
    for what, limit in asdict(limits).items():
        yield what.replace("_", " "), "unlimited" if limit is None else f"{limit:,}"


@app.command()
def show(name: Name, *, data_dir: DataDir = _STANDARD_DIR) -> None:
    """Show the prefixes that a tenant may use, its drop folders, and its quotas."""
    table = Table("place", "use", "endpoint", "window")
    with deployment.transaction(data_dir) as session:
        tenant_id = _tenant(session, name)
        for uri in tenants.allowed(session, tenant_id=tenant_id):
            table.add_row(uri, "files and outputs", "", "")
        for found in drops.watched(session, tenant_id=tenant_id):
            place = f"s3://{found.bucket}/{found.prefix}"
            table.add_row(place, "drop folder", found.endpoint, found.completion_window)
        usage = quotas.read_usage(session, tenant_id=tenant_id)
    console.print(table)
    console.print(_quota_table(usage))


def _quota_table(usage: Usage) -> Table:
    used = {
        "queued requests": usage.load.requests,
        "queued tokens": usage.load.tokens,
        "active batches": usage.load.batches,
        "storage bytes": usage.storage_bytes,
    }
    table = Table("quota", "used", "limit")
    for what, limit in _said(usage.limits):
        table.add_row(what, f"{used[what]:,}" if what in used else "", limit)
    return table


def _tenant(session: Session, name: str) -> UUID:
    tenant_id = keys.find_tenant(session, name=name)
    if tenant_id is None:
        raise CommandFailed(f"there is no tenant named {name!r}")
    return tenant_id


def _refuse_own(storage: Storage | None, folder: Location) -> None:
    if storage is not None and storage.bucket == folder.bucket:
        raise CommandFailed(
            f"s3://{folder.bucket} is Gristmill's own bucket, which holds the files of all tenants;"
            " name another"
        )


def _look_into(storage: Storage | None, folder: Location) -> None:
    """A drop folder that nobody can read would wait for ever."""
    _refuse_own(storage, folder)
    if storage is None:
        return
    try:
        next(storage.within(folder.bucket).objects(folder.key), None)
    except StorageUnavailable as error:
        raise CommandFailed(
            f"{folder} cannot be read with this deployment's S3 keys: {error}"
        ) from error


def _check(endpoint: str, window: str) -> None:
    if endpoint not in BODIES:
        raise CommandFailed(f"--endpoint must be one of {', '.join(sorted(BODIES))}")
    try:
        windows.parse(window)
    except ValueError as error:
        raise CommandFailed(f"--window {error}") from None
