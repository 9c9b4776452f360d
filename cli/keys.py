"""`gristmill keys`: who may use a deployment."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cli import deployment
from cli.errors import CommandFailed
from jobs import keys
from jobs.models import ApiKey
from jobs.secrets import Secrets

app = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)
console = Console()

DataDir = Annotated[
    Path, typer.Option(help="The stack's, where the environment names no DATABASE__URL.")
]
Tenant = Annotated[str, typer.Option(help="Whose key it is.")]
_STANDARD_DIR = Path(".gristmill")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    *,
    tenant: Tenant = "default",
    admin: Annotated[bool, typer.Option(help="It may also open the dashboard.")] = False,
    days: Annotated[int | None, typer.Option(min=1, help="It expires after so many.")] = None,
    data_dir: DataDir = _STANDARD_DIR,
) -> None:
    """Print a new key, which is never shown again.  A tenant that is not there is created.

    Its tenant, and what signs the webhooks of its jobs' own `webhook_url`, are
    told on the standard error.
    """
    secrets = deployment.secrets(data_dir)
    with deployment.transaction(data_dir) as session:
        tenant_id = keys.find_tenant(session, name=tenant)
        if tenant_id is None:
            tenant_id = keys.create_tenant(session, secrets, name=tenant)
        key = keys.create_key(
            session,
            tenant_id=tenant_id,
            name=name,
            admin=admin,
            expires_in=None if days is None else timedelta(days=days),
        )
        secret = keys.webhook_secret(session, secrets, tenant_id=tenant_id)
    print(key)
    print(f"the key is of the tenant {tenant}", file=sys.stderr)
    print(f"webhooks to the URL of a job or batch are signed with {secret}", file=sys.stderr)


@app.command("list")
def list_(*, tenant: Tenant = "default", data_dir: DataDir = _STANDARD_DIR) -> None:
    """Show a tenant's keys: their ids and names, never the keys themselves."""
    table = Table("id", "name", "admin", "created", "last used", "state")
    with deployment.transaction(data_dir) as session:
        tenant_id = keys.find_tenant(session, name=tenant)
        if tenant_id is None:
            raise CommandFailed(f"there is no tenant named {tenant!r}")
        for key in keys.list_keys(session, tenant_id=tenant_id):
            table.add_row(*_row(key))
    console.print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `gristmill keys list` shows it.")],
    *,
    data_dir: DataDir = _STANDARD_DIR,
) -> None:
    """End a key for good."""
    with deployment.transaction(data_dir) as session:
        keys.revoke_key(session, key_id=key_id)
    print(f"{key_id} is revoked")


@app.command("server-key")
def server_key() -> None:
    """Print a new SECRETS__KEY for a deployment.  Every process of one must have the same."""
    print(Secrets.generate_key())


def _row(key: ApiKey) -> list[str]:
    used = "never" if key.last_used_at is None else f"{key.last_used_at:%Y-%m-%d %H:%M}"
    state = "active" if key.revoked_at is None else "revoked"
    created = f"{key.created_at:%Y-%m-%d %H:%M}"
    return [key.id, key.name, "yes" if key.admin else "no", created, used, state]
