"""How long one request takes from being sent to its result, through API, queue and S3."""

import time
from typing import Any, NamedTuple

import httpx

from bench.batch_file import ENDPOINT
from bench.errors import OutputIncomplete

_WAIT = 30  # seconds


class Seconds(NamedTuple):
    """accepted: from the request to the 202; done: to the result"""

    accepted: float
    done: float


def single_jobs(client: httpx.Client, *, model: str, count: int) -> list[Seconds]:
    """One after another, each POSTed and then waited for.  Raises OutputIncomplete."""
    return [one_job(client, _new(model, number)) for number in range(count)]


def _new(model: str, number: int) -> dict[str, Any]:
    message = {"role": "user", "content": f"one request alone, number {number}"}
    body = {"messages": [message], "max_tokens": 16}
    return {"model": model, "endpoint": ENDPOINT, "body": body}


def one_job(client: httpx.Client, new: dict[str, Any]) -> Seconds:
    """POST a job and wait for it.  Raises OutputIncomplete."""
    started = time.perf_counter()
    job = client.post("/v1/jobs", json=new).raise_for_status().json()
    accepted = time.perf_counter() - started
    answer = client.get(f"/v1/jobs/{job['id']}", params={"wait": _WAIT}).raise_for_status()
    done = time.perf_counter() - started
    ended = answer.json()
    if ended["status"] != "completed":
        raise OutputIncomplete(f"job {job['id']} is {ended['status']}: {ended['error']}")
    return Seconds(accepted, done)
