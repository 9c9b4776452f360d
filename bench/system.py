"""A workload through the whole system and by the bare engine, by turns: `gristmill bench system`.

Each run has an engine or a stack of its own, so that nothing is computed already.  The engine's
time is that of computing; the system's is a client's: from the first byte of the file that it sends
to the last byte of the one that it gets.  Both are given the same texts, and must answer the same.
"""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from bench.engine_run import Task, make_task, run_once
from bench.errors import BenchFailed, OutputIncomplete, OutputsDiffer, StackFailed
from bench.single_jobs import one_job
from bench.stack_client import client_of, create_batch, download, served_model, upload
from bench.workloads import open_workload
from cli.own_stack import own_stack
from engine.opening import open_model
from engine.requests import Request
from engine.tokenizer import Tokenizer

_ENDPOINT = "/v1/completions"
_LOOK_EVERY = 0.25  # seconds; each question takes milliseconds of a core that the engine needs


@dataclass(frozen=True, slots=True)
class _Turn:
    """wall_s, and the text of each request's answer, in order."""

    wall_s: float
    texts: list[str]


def bench_system(
    model: str, workload: str, *, rounds: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Measure by turns, check, and return the figures.  Raises BenchFailed or EngineError.

    workload: a file, or one of W1, W2, W3
    """
    _, tokenizer = open_model(model)
    requests = [_as_text(each, tokenizer) for each in open_workload(workload, tokenizer)]
    task = make_task(requests, tokenizer)
    bare, whole = list[_Turn](), list[_Turn]()
    for number in range(1, rounds + 1):
        tell(f"round {number} of {rounds}: the engine alone")
        bare.append(_bare(model, task))
        tell(f"round {number} of {rounds}: the whole system")
        whole.append(_whole(model, requests))
        require_equal(bare[0].texts, bare[-1].texts, whole[-1].texts)
    best = [min(turn.wall_s for turn in turns) for turns in (bare, whole)]
    return {
        "bench": "system",
        "workload": Path(workload).stem,
        "requests": len(requests),
        "engine_walls_s": [round(turn.wall_s, 2) for turn in bare],
        "system_walls_s": [round(turn.wall_s, 2) for turn in whole],
        "system_over_engine": round(best[1] / best[0], 3),
    }


def _as_text(request: Request, tokenizer: Tokenizer) -> Request:
    """The request as a client of the API can make it: its prompt a text."""
    tokens = [token for token in request.prompt if isinstance(token, int)]
    return replace(request, prompt=tokenizer.decode(tokens)) if tokens else request


def _bare(model: str, task: Task) -> _Turn:
    run = run_once(model, task, precision="auto")
    return _Turn(run.wall_s, [completion.text for completion in run.completions])


def _whole(model: str, requests: Sequence[Request]) -> _Turn:
    # The stack starts in a folder of its own, where a relative path leads elsewhere.
    named = str(Path(model).resolve()) if Path(model).exists() else model
    with own_stack(Console(quiet=True), ["--model", named]) as facts, client_of(facts) as client:
        try:
            return _through(client, requests)
        except httpx.HTTPError as error:
            raise StackFailed(f"the API at {facts.api_url} failed: {error}") from error


def _through(client: httpx.Client, requests: Sequence[Request]) -> _Turn:
    served = served_model(client)
    _warm_up(client, served)
    with tempfile.TemporaryFile() as sent, tempfile.TemporaryFile() as got:
        sent.writelines(_line(served, number, each) for number, each in enumerate(requests))
        sent.seek(0)
        started = time.perf_counter()
        batch_id = create_batch(client, upload(client, sent), endpoint=_ENDPOINT)
        download(client, _completed(client, batch_id), got)
        elapsed = time.perf_counter() - started
        got.seek(0)
        return _Turn(elapsed, [_text(line) for line in got])


def _completed(client: httpx.Client, batch_id: str) -> dict[str, Any]:
    """The batch, once it has.  Raises OutputIncomplete if it ends otherwise."""
    while True:
        batch: dict[str, Any] = client.get(f"/v1/batches/{batch_id}").raise_for_status().json()
        match batch["status"]:
            case "completed":
                return batch
            case "failed" | "expired" | "cancelled" as status:
                raise OutputIncomplete(f"the batch is {status}: {batch['errors']}")
        time.sleep(_LOOK_EVERY)


def _warm_up(client: httpx.Client, model: str) -> None:
    """A few tokens that no prompt of the workloads begins with, as the bare engine gets."""
    new = {
        "model": model,
        "endpoint": _ENDPOINT,
        "body": {"prompt": "Warm up.", "max_tokens": 4, "ignore_eos": True},
    }
    one_job(client, new)


def _line(model: str, number: int, request: Request) -> bytes:
    """Raises BenchFailed for a request that is not of the workloads' kind."""
    if not isinstance(request.prompt, str):
        raise BenchFailed("the workload's prompts must be texts or tokens")
    params = request.params
    body = {
        "model": model,
        "prompt": request.prompt,
        "max_tokens": params.max_tokens,
        "temperature": params.temperature,
        "ignore_eos": params.ignore_eos,
    }
    line = {"custom_id": str(number), "method": "POST", "url": _ENDPOINT, "body": body}
    return json.dumps(line).encode() + b"\n"


def _text(line: bytes) -> str:
    text: str = json.loads(line)["response"]["body"]["choices"][0]["text"]
    return text


def require_equal(first: Sequence[str], *others: Sequence[str]) -> None:
    """Raises OutputsDiffer unless all are the same answers."""
    for texts in others:
        if list(texts) != list(first):
            same = sum(a == b for a, b in zip(first, texts, strict=False))
            raise OutputsDiffer(f"{same} of {len(first)} answers are those of the engine alone")
