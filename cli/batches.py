"""`gristmill batches`: look at batches, end them, and run again what failed in them."""

import json
import uuid
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cli.api_access import STANDARD_DIR, ApiKey, BaseUrl, DataDir, api_of
from cli.api_client import Answer
from cli.batch_faults import sentences

app = typer.Typer(help="Look at batches, cancel them, run them again.", no_args_is_help=True)

BatchId = Annotated[str, typer.Argument(help="batch_…, as `submit` printed it.")]
Limit = Annotated[int, typer.Option(min=1, max=100, help="How many, the newest first.")]


@app.command("list")
def list_(
    *,
    limit: Limit = 20,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    data_dir: DataDir = STANDARD_DIR,
) -> None:
    """Show your batches, the newest first."""
    with api_of(base_url, api_key, data_dir) as api:
        found = api.get(f"/v1/batches?limit={limit}")["data"]
    for batch in found:
        created = datetime.fromtimestamp(batch["created_at"], UTC)
        print(f"{_line(batch)}; {created:%Y-%m-%d %H:%M}Z {batch['model'] or ''}".rstrip())


@app.command()
def show(
    batch_id: BatchId,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="All that the API says.")] = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    data_dir: DataDir = STANDARD_DIR,
) -> None:
    """Show how a batch is doing, and what is wrong with it."""
    with api_of(base_url, api_key, data_dir) as api:
        batch = api.get(f"/v1/batches/{_named(batch_id)}")
    if as_json:
        print(json.dumps(batch, indent=2))
        return
    print("\n".join([_line(batch), *_more(batch), *sentences(batch)]))


@app.command()
def cancel(
    batch_id: BatchId,
    *,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    data_dir: DataDir = STANDARD_DIR,
) -> None:
    """End a batch.  What has finished is delivered; the rest stands in its error file."""
    with api_of(base_url, api_key, data_dir) as api:
        path = f"/v1/batches/{_named(batch_id)}/cancel"
        print(_line(api.post(path, {})))


@app.command()
def retry(
    batch_id: BatchId,
    *,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    data_dir: DataDir = STANDARD_DIR,
) -> None:
    """Run the rows of an ended batch that have no good result, as a batch of their own."""
    with api_of(base_url, api_key, data_dir) as api:
        path = f"/v1/batches/{_named(batch_id)}/retry"
        print(_line(api.post(path, {}, key=f"retry-{uuid.uuid4().hex}")))


def _named(batch_id: str) -> str:
    if not (batch_id.isascii() and batch_id.replace("_", "").isalnum()):
        raise typer.BadParameter(f"{batch_id!r} is no batch's id; those are like batch_…")
    return batch_id


def _line(batch: Answer) -> str:
    counts = batch["request_counts"]
    return (
        f"{batch['id']}: {batch['status']}, {counts['completed']:,} completed,"
        f" {counts['failed']:,} failed, of {counts['total']:,}"
    )


def _more(batch: dict[str, Any]) -> list[str]:
    found = [f"{name.replace('_', ' ')}: {batch[name]}" for name in _FACTS if batch[name]]
    queue = batch["queue"]
    if queue is not None:
        eta = queue["eta_seconds"]
        found.append(f"queue: {queue['reason']}" + ("" if eta is None else f", about {eta:,} s"))
    return found


_FACTS = ("model", "input_file_id", "output_file_id", "error_file_id", "retry_of")
