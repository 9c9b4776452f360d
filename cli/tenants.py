"""`gristmill tenants`: what a tenant may use besides the API, and its drop folders."""

from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from sqlalchemy.orm import Session

from cli import deployment
from cli.errors import CommandFailed
from jobs import drops, keys, locations, tenants, windows
from jobs.requests import BODIES, CHAT_COMPLETIONS

app = typer.Typer(help="Say where in S3 a tenant's files may lie.", no_args_is_help=True)
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
    with deployment.transaction(data_dir) as session:
        tenant_id = _tenant(session, name)
        if not remove:
            drops.put(session, tenant_id=tenant_id, folder=folder, endpoint=endpoint, window=window)
        elif not drops.end(session, tenant_id=tenant_id, folder=folder):
            raise CommandFailed(f"{folder} is no drop folder of {name}")
    print(f"{folder} is {'no longer ' if remove else ''}a drop folder of {name}")


@app.command()
def show(name: Name, *, data_dir: DataDir = _STANDARD_DIR) -> None:
    """Show the prefixes that a tenant may use, and its drop folders."""
    table = Table("place", "use", "endpoint", "window")
    with deployment.transaction(data_dir) as session:
        tenant_id = _tenant(session, name)
        for uri in tenants.allowed(session, tenant_id=tenant_id):
            table.add_row(uri, "files and outputs", "", "")
        for found in drops.watched(session, tenant_id=tenant_id):
            place = f"s3://{found.bucket}/{found.prefix}"
            table.add_row(place, "drop folder", found.endpoint, found.completion_window)
    console.print(table)


def _tenant(session: Session, name: str) -> UUID:
    tenant_id = keys.find_tenant(session, name=name)
    if tenant_id is None:
        raise CommandFailed(f"there is no tenant named {name!r}")
    return tenant_id


def _check(endpoint: str, window: str) -> None:
    if endpoint not in BODIES:
        raise CommandFailed(f"--endpoint must be one of {', '.join(sorted(BODIES))}")
    try:
        windows.parse(window)
    except ValueError as error:
        raise CommandFailed(f"--window {error}") from None
