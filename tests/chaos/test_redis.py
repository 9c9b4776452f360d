"""Redis is a doorbell: whatever becomes of it, work goes on, and nobody restarts anything."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import pytest
from kombu import Connection
from redis.exceptions import RedisError

from jobs.doorbell import KEY_PREFIX, Doorbell, inference_queue, transport_options
from tests.chaos.batches import FaultClient, plain_texts, some_are_done
from tests.chaos.invariants import Checked
from tests.chaos.meanwhile import meanwhile
from tests.chaos.scale import full_or_short
from tests.fixtures.fault_stack import MODEL, FaultStack, wait_for

_TEXTS = plain_texts(120, seconds=0.3)


def workers(stack: FaultStack) -> list[int]:
    return [stack.pid(name) for name in stack.names("worker")]


def again_and_again(act: Callable[[], object], *, pause: float) -> AbstractContextManager[None]:
    """While the `with` lasts; a server that is away is left alone."""

    def try_it() -> None:
        with suppress(RedisError):
            act()

    return meanwhile(try_it, pause=pause)


@pytest.mark.law("I9")
def test_redis_flushed_at_any_instant_changes_no_result(
    client: FaultClient, stack: FaultStack
) -> None:
    with again_and_again(stack.broker.flushall, pause=0.05):
        ended = client.wait(client.submit_texts(_TEXTS))

    Checked(stack, client, ended, _TEXTS).check()


@pytest.mark.law("P9")
def test_connections_cut_again_and_again_claim_nothing_twice(
    client: FaultClient, stack: FaultStack
) -> None:
    texts = plain_texts(full_or_short(3300, 120), seconds=0.3)

    with again_and_again(lambda: stack.broker.client_kill_filter(_type="normal"), pause=0.5):
        ended = client.wait(client.submit_texts(texts))

    Checked(stack, client, ended, texts).check()
    assert _attempts(stack, ended.id) == {1}


@pytest.mark.law("P8")
def test_a_shard_that_outlasts_somebodys_visibility_timeout_runs_once(
    client: FaultClient, stack: FaultStack
) -> None:
    """The shortest timeout of any program on a broker counts; it finds nothing to give again."""
    options = transport_options(5) | {"visibility_timeout": 1}

    with Connection(stack.facts.broker_url, transport_options=options) as connection:
        restore = connection.default_channel.qos.restore_visible
        with again_and_again(lambda: restore(interval=1), pause=0.1):
            ended = client.wait(client.submit_texts({"long": "slow 3 row"}))

    assert (ended.status, _attempts(stack, ended.id)) == ("completed", {1})


@pytest.mark.law("P10")
def test_redis_killed_again_and_again_with_and_without_its_data_is_heard_each_time(
    client: FaultClient, stack: FaultStack
) -> None:
    doorbell, before = Doorbell(stack.facts.broker_url), workers(stack)
    queue = inference_queue(MODEL)

    for round_number in range(full_or_short(20, 2)):
        if round_number % 2:
            stack.broker.save()
        stack.kill("broker")
        stack.wait_until_well()
        wait_for(lambda: doorbell.ring(queue))
        # A bell that is taken off the queue was heard: both workers listen there and nobody else.
        wait_for(lambda: stack.broker.llen(KEY_PREFIX + queue) == 0)
    doorbell.close()

    assert workers(stack) == before


@pytest.mark.law("P11")
def test_redis_killed_under_running_work_costs_no_worker_its_model(
    client: FaultClient, stack: FaultStack
) -> None:
    before = workers(stack)
    batch = client.wait_for(client.submit_texts(_TEXTS), some_are_done)

    stack.kill("broker")
    ended = client.wait(batch)
    later = client.wait(client.submit_texts(_TEXTS))

    Checked(stack, client, ended, _TEXTS).check()
    Checked(stack, client, later, _TEXTS).check()
    assert workers(stack) == before
    assert _attempts(stack, ended.id) == {1}


def test_work_goes_on_within_seconds_while_redis_is_frozen(
    client: FaultClient, stack: FaultStack
) -> None:
    with stack.frozen("broker"):
        ended = client.wait(client.submit_texts(plain_texts(20)))

    assert ended.status == "completed"


def _attempts(stack: FaultStack, batch_id: str) -> set[int]:
    query = "SELECT attempt FROM shards WHERE job_id = :id"
    return set(stack.column(query, id=batch_id.removeprefix("batch_")))
