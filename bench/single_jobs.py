"""How long one request takes from being sent to its result, through API, queue and S3."""

import time
from typing import NamedTuple

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
    return [_one(client, model, number) for number in range(count)]


def _one(client: httpx.Client, model: str, number: int) -> Seconds:
    message = {"role": "user", "content": f"one request alone, number {number}"}
    new = {
        "model": model,
        "endpoint": ENDPOINT,
        "body": {"messages": [message], "max_tokens": 16},
    }
    started = time.perf_counter()
    job = client.post("/v1/jobs", json=new).raise_for_status().json()
    accepted = time.perf_counter() - started
    answer = client.get(f"/v1/jobs/{job['id']}", params={"wait": _WAIT}).raise_for_status()
    done = time.perf_counter() - started
    ended = answer.json()
    if ended["status"] != "completed":
        raise OutputIncomplete(f"job {job['id']} is {ended['status']}: {ended['error']}")
    return Seconds(accepted, done)
