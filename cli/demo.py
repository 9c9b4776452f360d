"""`gristmill demo`: the main job, once, from the outside.

It brings a stack up for itself and then knows nothing but its URL and key: everything goes through
the public API, with the official client of OpenAI's API, as anybody's program would.
"""

import json
import signal
import time
from pathlib import Path
from typing import Any, Final

import httpx
from openai import InvalidWebhookSignatureError, OpenAI, OpenAIError
from openai.types import Batch, FileObject
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cli.background_stack import Facts
from cli.errors import CommandFailed
from cli.own_stack import own_stack
from cli.webhook_receiver import Receiver, receiving

_MODEL = "smollm2-135m-instruct"
_ENDPOINT: Final = "/v1/chat/completions"
_QUESTION = "In one sentence: what is a grist mill?"
_REQUESTS = Path(__file__).parents[1] / "examples" / "quickstart.jsonl"
_TERMINAL = {"completed", "failed", "expired", "cancelled"}
_DEADLINE = 600.0  # seconds, of a job or a batch
_WEBHOOK_DEADLINE = 30.0
_SHOWN = 3


def run(console: Console, *, engine: str, data_dir: Path | None) -> None:
    """Do all of it and stop what was started.  Raises CommandFailed where a step fails."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both stop everything on the way
    started = time.monotonic()
    with own_stack(console, ["--engine", engine], data_dir=data_dir) as facts:
        try:
            _walk(console, facts)
        except (OpenAIError, httpx.HTTPError) as error:
            raise CommandFailed(f"the API at {facts.api_url} did not answer: {error}") from error
    console.print(f"\nAll of it worked, in {time.monotonic() - started:.0f} s, and is gone again.")
    console.print("Next: `make up`, and `gristmill submit examples/quickstart.jsonl` beside it.")


def _walk(console: Console, facts: Facts) -> None:
    console.print(f"Up at {facts.api_url}, dashboard at {facts.dashboard_url}")
    client = OpenAI(base_url=f"{facts.api_url}/v1", api_key=facts.api_key, max_retries=2)
    with client, receiving() as receiver:
        console.rule("One request")
        console.print(f"[bold]{_QUESTION}[/]\n{escape(_ask(facts))}")

        console.rule("A batch")
        batch = _run_batch(console, client, webhook_url=receiver.url)
        _show(console, client, batch)

        console.rule("The webhook")
        _verify_webhook(client, receiver, batch, secret=facts.webhook_secret)
        console.print(f"batch.completed came for {batch.id}, and its signature is right")


def _ask(facts: Facts) -> str:
    """POST one job and poll it to its result."""
    body = {"messages": [{"role": "user", "content": _QUESTION}], "max_tokens": 48}
    headers = {"Authorization": f"Bearer {facts.api_key}"}
    with httpx.Client(
        base_url=facts.api_url, headers=headers, timeout=60, trust_env=False
    ) as client:
        new = {"model": _MODEL, "endpoint": _ENDPOINT, "body": body}
        job = client.post("/v1/jobs", json=new).raise_for_status().json()
        deadline = time.monotonic() + _DEADLINE
        while job["status"] not in _TERMINAL and time.monotonic() < deadline:
            answer = client.get(f"/v1/jobs/{job['id']}", params={"wait": 20})
            job = answer.raise_for_status().json()
    if job["status"] != "completed":
        raise CommandFailed(f"job {job['id']} is {job['status']}: {job['error']}")
    return _text(job)


def _run_batch(console: Console, client: OpenAI, *, webhook_url: str) -> Batch:
    """Upload the file, create the batch, follow it to its end."""
    with _REQUESTS.open("rb") as file:
        uploaded = client.files.create(file=file, purpose="batch")
    batch = client.batches.create(
        input_file_id=uploaded.id,
        endpoint=_ENDPOINT,
        completion_window="24h",
        extra_body={"webhook_url": webhook_url},
    )
    batch = _follow(console, client, batch)
    if batch.status != "completed" or batch.output_file_id is None:
        raise CommandFailed(f"batch {batch.id} is {batch.status}: {batch.errors}")
    return batch


def _follow(console: Console, client: OpenAI, batch: Batch) -> Batch:
    deadline = time.monotonic() + _DEADLINE
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        bar = progress.add_task(batch.status, total=None)
        while batch.status not in _TERMINAL and time.monotonic() < deadline:
            time.sleep(0.25)
            batch = client.batches.retrieve(batch.id)
            counts = batch.request_counts
            if counts is not None:
                done, total = counts.completed + counts.failed, counts.total or None
                progress.update(bar, description=batch.status, completed=done, total=total)
    return batch


def _show(console: Console, client: OpenAI, batch: Batch) -> None:
    output_id, counts = batch.output_file_id, batch.request_counts
    if output_id is None or counts is None:
        raise CommandFailed(f"batch {batch.id} has no output")
    lines = client.files.content(output_id).text.splitlines()
    for line in map(json.loads, lines[:_SHOWN]):
        console.print(f"[bold]{line['custom_id']}[/]  {escape(_text(line))}", highlight=False)
    console.print(f"… and {len(lines) - _SHOWN} more")
    console.print(f"{counts.completed} completed, {counts.failed} failed, of {counts.total}")
    prefix: Any = _extra(batch, "prefix")
    console.print(
        f"Prompt tokens that the shared prefix saved: {prefix['tokens_saved']:,},"
        f" {prefix['hit_rate']:.0%} of all"
    )
    output: FileObject = client.files.retrieve(output_id)
    console.print(f"The output lies at {_extra(output, 's3_uri')}", soft_wrap=True)


def _verify_webhook(client: OpenAI, receiver: Receiver, batch: Batch, *, secret: str) -> None:
    posted = receiver.next(timeout=_WEBHOOK_DEADLINE)
    try:
        event = client.webhooks.unwrap(posted.body, posted.headers, secret=secret)
    except InvalidWebhookSignatureError as error:
        raise CommandFailed(f"the webhook's signature is wrong: {error}") from error
    if event.type != "batch.completed" or event.data.id != batch.id:
        raise CommandFailed(f"the webhook tells of {event.type}, not of the end of {batch.id}")


def _extra(model: Batch | FileObject, name: str) -> Any:
    """A field of ours beside those that the client knows."""
    return (model.model_extra or {})[name]


def _text(line: dict[str, Any]) -> str:
    text: str = line["response"]["body"]["choices"][0]["message"]["content"]
    return text.strip()
