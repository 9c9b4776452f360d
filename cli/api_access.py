"""Which API a command speaks to: the one that is named, or that of a stack on this machine."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from cli import deployment
from cli.api_client import Api
from cli.errors import CommandFailed

BaseUrl = Annotated[
    str | None, typer.Option(envvar="GRISTMILL_BASE_URL", help="The API's, like https://host/v1.")
]
ApiKey = Annotated[str | None, typer.Option(envvar="GRISTMILL_API_KEY", help="gm_…")]
DataDir = Annotated[
    Path, typer.Option(help="Of a stack on this machine, where no address is given.")
]
STANDARD_DIR = Path(".gristmill")


def api_of(base_url: str | None, api_key: str | None, data_dir: Path) -> Api:
    """Nothing is sent yet.  Raises CommandFailed where the address or the key cannot be one."""
    if base_url is None:
        known_url, known_key, stack = deployment.api_access(data_dir)
        return Api(known_url, api_key or known_key, deployment=stack)
    if api_key is None:
        raise CommandFailed("--base-url needs --api-key, or GRISTMILL_API_KEY in the environment")
    _check_url(base_url)
    if not (api_key.isascii() and api_key.isprintable()):
        raise CommandFailed("--api-key is no key: those are like gm_…, with nothing around them")
    return Api(base_url, api_key)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        complete = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        complete = False
    if not complete:
        raise CommandFailed(f"--base-url must be like http://127.0.0.1:8000/v1, not {url!r}")
