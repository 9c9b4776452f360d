"""Laws 3 to 5 on live workers: killed, frozen, drained, restarted, in the middle of batches."""

import os
import signal
import time
from collections import Counter
from uuid import UUID

import pytest
from openai.types import Batch

from jobs import ids
from jobs.doorbell import CONTROL, KEY_PREFIX, inference_queue
from tests.chaos.batches import FaultClient, plain_texts, some_are_done
from tests.chaos.invariants import Checked
from tests.chaos.scale import full_or_short
from tests.fixtures.fault_stack import MODEL, TTL, Exit, FaultStack, wait_for

_TEXTS = plain_texts(160, seconds=0.2)


@pytest.fixture
def under_way(client: FaultClient) -> Batch:
    """A batch of which some rows have finished and some have not."""
    return client.wait_for(client.submit_texts(_TEXTS), some_are_done)


def id_of(batch: Batch) -> UUID:
    return UUID(batch.id.removeprefix("batch_"))


def at_work(stack: FaultStack, batch: Batch) -> str:
    """A worker that holds shards of the batch."""
    return str(wait_for(lambda: next(iter(_at_work(stack, batch)), "")))


def _at_work(stack: FaultStack, batch: Batch) -> list[str]:
    owners = stack.column(
        "SELECT pid FROM workers WHERE incarnation IN"
        " (SELECT owner FROM shards WHERE job_id = :id AND state = 'leased')",
        id=id_of(batch),
    )
    return [name for name in stack.names("worker") if stack.pid(name) in owners]


def begun(stack: FaultStack, batch: Batch) -> list[tuple[float, int, str]]:
    """When, by whom and which: the requests of the batch whose computation began."""
    prefix = ids.of_request(id_of(batch), 0)[:-8]
    return [
        (each.at, each.pid, each.request_id)
        for each in stack.ledger()
        if each.request_id.startswith(prefix)
    ]


def durable(stack: FaultStack, batch: Batch) -> set[str]:
    done = stack.column("SELECT index FROM results WHERE job_id = :id", id=id_of(batch))
    return {ids.of_request(id_of(batch), index) for index in done}


def attempts(stack: FaultStack, batch: Batch) -> set[int]:
    return set(stack.column("SELECT attempt FROM shards WHERE job_id = :id", id=id_of(batch)))


def kill_at_once(stack: FaultStack, name: str, _batch: Batch) -> int:
    return stack.kill(name)


def kill_in_its_drain(stack: FaultStack, name: str, batch: Batch) -> int:
    finished = len(durable(stack, batch))
    stack.signal(name, signal.SIGTERM)
    wait_for(lambda: len(durable(stack, batch)) > finished)
    return stack.kill(name)


@pytest.mark.parametrize(
    "die",
    [
        pytest.param(kill_at_once, marks=pytest.mark.law("P17")),
        pytest.param(kill_in_its_drain, marks=pytest.mark.law("P13")),
    ],
)
def test_a_killed_worker_costs_what_it_had_begun_and_nothing_that_was_durable(
    client: FaultClient, stack: FaultStack, under_way: Batch, die
) -> None:
    pid = die(stack, at_work(stack, under_way), under_way)
    kept, killed_at = durable(stack, under_way), time.monotonic()

    ended = client.wait(under_way)

    Checked(stack, client, ended, _TEXTS).check()
    runs = begun(stack, under_way)
    assert kept.isdisjoint(request for at, _, request in runs if at > killed_at)
    twice = {request for request, times in Counter(each[2] for each in runs).items() if times > 1}
    assert twice <= {request for at, by, request in runs if by == pid and at <= killed_at}


@pytest.mark.law("P2")
def test_a_worker_frozen_past_its_lease_changes_nothing_and_computes_nothing_when_it_wakes(
    client: FaultClient, stack: FaultStack, under_way: Batch
) -> None:
    name = at_work(stack, under_way)

    with stack.frozen(name) as pid:
        ended = client.wait(under_way)  # by the other
    incarnations = "SELECT count(*) FROM workers WHERE pid = :pid AND beat_until > now()"
    wait_for(lambda: stack.column(incarnations, pid=pid) == [1])
    before = len(begun(stack, ended))
    client.wait(client.submit_texts(plain_texts(40)))

    assert stack.pid(name) == pid
    assert len(begun(stack, ended)) == before
    Checked(stack, client, ended, _TEXTS).check()


@pytest.mark.law("P28")
def test_a_request_that_outlasts_the_lease_is_finished_by_the_worker_told_to_stop(
    client: FaultClient, stack: FaultStack
) -> None:
    stack.exits.clear()
    texts = {"long": f"slow {TTL + 1.5} row"}
    batch = client.submit_texts(texts)
    name = at_work(stack, batch)

    os.kill(stack.pid(name), signal.SIGTERM)
    ended = client.wait(batch)

    assert attempts(stack, ended) == {1}
    Checked(stack, client, ended, texts).check()
    wait_for(lambda: stack.exits == [Exit(name, 0)])


@pytest.mark.law("P7")
def test_bells_that_die_with_their_workers_are_healed(
    client: FaultClient, stack: FaultStack
) -> None:
    """A frozen worker's connection takes the bell off the queue, and nobody hears it."""
    texts = plain_texts(20)
    for name in stack.names("worker"):
        stack.signal(name, signal.SIGSTOP)

    batch = client.wait(client.submit_texts(texts), until=["in_progress"])
    for name in stack.names("worker"):
        stack.kill(name)

    Checked(stack, client, client.wait(batch), texts).check()


@pytest.mark.law("P34")
def test_one_sweeper_is_enough_whichever_is_left(
    client: FaultClient, stack: FaultStack, under_way: Batch
) -> None:
    """One is frozen in whatever it did; the other finds the dead worker and ends the batch."""
    with stack.frozen("control-0"):
        stack.kill(at_work(stack, under_way))
        ended = client.wait(under_way)

    Checked(stack, client, ended, _TEXTS).check()


@pytest.mark.law("P12")
def test_restarts_of_a_worker_leave_nothing_in_redis(
    client: FaultClient, stack: FaultStack
) -> None:
    client.wait(client.submit_texts(plain_texts(20)))  # every queue has been used
    _restart(stack, "worker-0")
    before = _redis(stack)

    for _ in range(full_or_short(100, 1)):
        _restart(stack, "worker-0")

    wait_for(lambda: all(now <= then for now, then in zip(_redis(stack), before, strict=True)))


def _restart(stack: FaultStack, name: str) -> None:
    pid = stack.pid(name)
    stack.signal(name, signal.SIGTERM)
    wait_for(lambda: stack.pid(name) != pid)
    stack.wait_until_well()


def _redis(stack: FaultStack) -> tuple[int, int]:
    """Keys, and the bytes that all of them take; the bells come and go."""
    bells = {f"{KEY_PREFIX}{queue}".encode() for queue in (CONTROL, inference_queue(MODEL))}
    keys = [key for key in stack.broker.scan_iter() if key not in bells]
    return len(keys), sum(stack.broker.memory_usage(key) or 0 for key in keys)
