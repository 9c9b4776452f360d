"""The thread that owns the engine: who is told of what, and what is left out."""

import threading

import pytest

from engine.requests import Completion, Request, SamplingParams
from jobs.workers import Held
from worker.inference.echo_engine import EchoEngine
from worker.inference.engine_host import EngineHost, Group

DEADLINE = 10.0  # seconds


class Ended(Exception):
    pass


def die(reason: str) -> None:
    raise Ended(reason)


class Told:
    """Collects completions; `enough` is set when `count` have come."""

    def __init__(self, count: int) -> None:
        self.texts = list[str]()
        self.enough = threading.Event()
        self._count = count

    def __call__(self, completion: Completion) -> None:
        self.texts.append(completion.text)
        if len(self.texts) == self._count:
            self.enough.set()


def group(held: Held, told: Told, *texts: str) -> Group:
    params = SamplingParams(max_tokens=10)
    requests = [Request(request_id=text, prompt=text, params=params) for text in texts]
    return Group(held, requests, 10, told)


@pytest.fixture
def held() -> set[Held]:
    return {Held(1, 1), Held(2, 1)}


@pytest.fixture
def host(held: set[Held]):
    host = EngineHost(EchoEngine(), is_held=held.__contains__, die=die)
    yield host
    host.stop()


def test_every_request_of_a_group_is_told_of(host: EngineHost) -> None:
    told = Told(2)

    host.submit(group(Held(1, 1), told, "a", "b"))
    host.start()

    assert told.enough.wait(DEADLINE)
    assert sorted(told.texts) == ["a", "b"]


def test_an_aborted_group_is_told_of_nothing(host: EngineHost) -> None:
    dropped, other = Told(1), Told(1)

    host.submit(group(Held(1, 1), dropped, "a"))
    host.abort(Held(1, 1))
    host.submit(group(Held(2, 1), other, "b"))
    host.start()

    assert other.enough.wait(DEADLINE)
    assert dropped.texts == []


def test_a_group_that_comes_after_its_shard_was_let_go_is_left_out(
    host: EngineHost, held: set[Held]
) -> None:
    """Its requests have the ids of the next attempt's, which may be here already."""
    late, again = Told(1), Told(1)
    held.remove(Held(1, 1))
    held.add(Held(1, 2))

    host.abort(Held(1, 1))
    host.submit(group(Held(1, 1), late, "a"))
    host.submit(group(Held(1, 2), again, "a"))
    host.start()

    assert again.enough.wait(DEADLINE)
    assert (late.texts, again.texts) == ([], ["a"])


def test_the_inbox_counts_as_promised_until_the_engine_knows(host: EngineHost) -> None:
    told = Told(1)
    before = host.room()

    host.submit(group(Held(1, 1), told, "a"))
    assert host.room() == before - 10
    host.start()

    assert told.enough.wait(DEADLINE)
    assert host.room() == before
