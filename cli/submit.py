"""`gristmill submit FILE`: from a file to its results, and on from where it stopped."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from cli import deployment
from cli.api_client import Api
from cli.errors import CommandFailed
from cli.submit_run import Places, Run

_INTERRUPTED = 130


def submit(  # noqa: PLR0913 - every option of a command is a parameter of its function
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Requests, JSONL.")],
    *,
    base_url: Annotated[
        str | None, typer.Option(envvar="GRISTMILL_BASE_URL", help="The API's address.")
    ] = None,
    api_key: Annotated[str | None, typer.Option(envvar="GRISTMILL_API_KEY")] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Of a stack on this machine, where no address is given.")
    ] = Path(".gristmill"),
    endpoint: Annotated[str, typer.Option()] = "/v1/chat/completions",
    window: Annotated[str, typer.Option(help="Like 24h or 7d.")] = "24h",
    priority: Annotated[Literal["bulk", "interactive"], typer.Option()] = "bulk",
    on_invalid_line: Annotated[Literal["fail", "skip"], typer.Option()] = "fail",
    output: Annotated[Path | None, typer.Option(help="A folder; FILE's own if not given.")] = None,
    wait: Annotated[bool, typer.Option(help="Until it has ended, for its results.")] = True,
    again: Annotated[
        bool, typer.Option("--again", help="Even if it was submitted before.")
    ] = False,
) -> None:
    """Run a file of requests.  The same command again takes up where it was stopped.

    Exits with 0 if every row completed, 3 if some failed, 4 if the batch failed, 5 if it expired,
    6 if it was cancelled, 1 on any error.
    """
    body = {
        "endpoint": endpoint,
        "completion_window": window,
        "priority": priority,
        "on_invalid_line": on_invalid_line,
    }
    places = Places(output or file.parent, file.stem)
    try:
        with Api(*_access(base_url, api_key, data_dir)) as api:
            ending = Run(api, file, places, Console(stderr=True)).go(body, wait=wait, again=again)
    except KeyboardInterrupt:
        print(f"\nStopped. What was sent goes on; the same command takes up {file} again.")
        raise typer.Exit(_INTERRUPTED) from None
    raise typer.Exit(ending)


def _access(base_url: str | None, api_key: str | None, data_dir: Path) -> tuple[str, str]:
    if base_url is None:
        known_url, known_key = deployment.api_access(data_dir)
        return known_url, api_key or known_key
    if api_key is None:
        raise CommandFailed("--base-url needs --api-key, or GRISTMILL_API_KEY in the environment")
    return base_url, api_key
