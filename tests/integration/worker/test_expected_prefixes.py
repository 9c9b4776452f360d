"""What the queue knows of its next lines reaches the engine: their prefix stays in memory."""

import threading

import pytest

from engine.requests import Completion, Request, SamplingParams
from jobs.workers import Held
from tests.integration.engine.running import load
from worker.inference.engine_host import EngineHost, Group

DEADLINE = 60.0  # seconds
PREFIX = list(range(100, 148))  # three blocks of the eight that the pool has
POOL_BYTES = 8 * 16 * 512


def die(reason: str) -> None:
    raise AssertionError(reason)


def run_group(host: EngineHost, name: str, prompts: list[list[int]], followers: int = 0):
    """Submit a shard's rows and wait for all of them."""
    found = list[Completion]()
    done = threading.Event()

    def told(completion: Completion) -> None:
        found.append(completion)
        if len(found) == len(prompts):
            done.set()

    params = SamplingParams(max_tokens=2, ignore_eos=True)
    requests = [
        Request(request_id=f"{name} {i}", prompt=prompt, params=params, salt="tenant")
        for i, prompt in enumerate(prompts)
    ]
    host.submit(Group(Held(1, 1), requests, 10, told, followers))
    assert done.wait(DEADLINE)
    return found


@pytest.mark.parametrize(("followers", "cached"), [([2], 48), ([0], 0), ([9, 7], 48), ([9, 0], 0)])
def test_a_prefix_stays_for_lines_that_are_still_in_the_queue(tiny_model_dir, followers, cached):
    """followers: of each shard that comes with the prefix"""
    engine = load(tiny_model_dir, kv_cache_bytes=POOL_BYTES, max_model_len=128).engine
    host = EngineHost(engine, is_held=lambda held: True, die=die)
    host.start()
    try:
        for i, count in enumerate(followers):
            run_group(host, f"shard {i}", [[*PREFIX, 1, i], [*PREFIX, 2, i]], count)
        for i in range(6):
            run_group(host, f"stranger {i}", [[i] * 60])

        [late] = run_group(host, "late", [[*PREFIX, 3, 3]])
    finally:
        host.stop()

    assert late.cached_tokens == cached
