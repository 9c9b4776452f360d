"""`gristmill submit FILE`: from a file to its results, and on from where it stopped."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from cli.api_access import STANDARD_DIR, ApiKey, BaseUrl, DataDir, api_of
from cli.submit_run import Places, Run

_INTERRUPTED = 130

Priority = Annotated[
    Literal["bulk", "interactive"], typer.Option(help="interactive goes before all bulk.")
]
OnInvalidLine = Annotated[
    Literal["fail", "skip"], typer.Option(help="Refuse the file, or run its other lines.")
]


def submit(  # noqa: PLR0913 - every option of a command is a parameter of its function
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Requests, JSONL.")],
    *,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    data_dir: DataDir = STANDARD_DIR,
    endpoint: Annotated[str, typer.Option(help="The `url` of its lines.")] = "/v1/chat/completions",
    window: Annotated[str, typer.Option(help="How long it may take, like 24h or 7d.")] = "24h",
    priority: Priority = "bulk",
    on_invalid_line: OnInvalidLine = "fail",
    output: Annotated[
        Path | None, typer.Option(file_okay=False, help="A folder; FILE's own if not given.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Until it has ended, for its results.")] = True,
    again: Annotated[
        bool, typer.Option("--again", help="Even if it was submitted before.")
    ] = False,
) -> None:
    """Run a file of requests.  The same command again takes up where it was stopped.

    Exits with 0 if every row completed, 3 if some failed, 4 if the batch failed,
    5 if it expired, 6 if it was cancelled, 1 on any error.
    """
    body = {
        "endpoint": endpoint,
        "completion_window": window,
        "priority": priority,
        "on_invalid_line": on_invalid_line,
    }
    with api_of(base_url, api_key, data_dir) as api:
        run = Run(api, file, Places.for_results(file, output), Console(stderr=True))
        try:
            ending = run.go(body, wait=wait, again=again)
        except KeyboardInterrupt:
            print(_stopped(file, run.batch_id, again=again), file=sys.stderr)
            raise typer.Exit(_INTERRUPTED) from None
    raise typer.Exit(ending)


def _stopped(file: Path, batch_id: str | None, *, again: bool) -> str:
    if batch_id is None:
        return f"\nStopped before there was a batch; the same command begins with {file} again."
    same = "the same command without --again" if again else "the same command"
    return (
        f"\nStopped looking. {batch_id} goes on: {same} takes up {file} again, and"
        f" `gristmill batches cancel {batch_id}` ends it."
    )
