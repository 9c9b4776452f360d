"""Law 6 on live workers: whatever a request does to its worker, its neighbours are answered."""

import pytest

from tests.chaos.batches import FaultClient, plain_texts, right_answers
from tests.chaos.scale import FULL, full_or_short
from tests.e2e.client import counts
from tests.fixtures.fault_stack import FENCE_AFTER, HANG_AFTER, TTL, Exit, FaultStack
from tests.fixtures.folders import open_folder

_HUNG = "worker ends: the engine has stopped stepping"
_MORE_KILLERS = {"r101": "exit", "r150": "eat", "r46": "hang"}  # the last takes its time to die


@pytest.mark.law("P14")
def test_requests_that_kill_their_workers_are_answered_and_no_neighbour_fails(
    client: FaultClient, stack: FaultStack
) -> None:
    """Three in one shard: each dies of something else."""
    texts = plain_texts(full_or_short(280, 40))
    killers = {"r7": "exit", "r8": "raise", "r9": "eat"} | (_MORE_KILLERS if FULL else {})

    ended = client.wait(client.submit_texts(texts | killers))

    innocent = {name: text for name, text in texts.items() if name not in killers}
    assert ended.status == "completed"
    assert counts(ended) == (len(texts), len(innocent), len(killers))
    assert client.answers(ended) == right_answers(innocent)
    assert client.failures(ended) == dict.fromkeys(killers, "worker_lost")


@pytest.mark.law("P14")
def test_a_request_that_stops_its_whole_process_past_the_fence_is_answered_in_the_end(
    client: FaultClient, stack: FaultStack
) -> None:
    """No worker dies of it, and no lease lapses long before the fence falls: only the worker
    itself can tell, and by what it does not say."""
    stack.exits.clear()
    texts = plain_texts(20) | {"stall": f"stall {(FENCE_AFTER + TTL) / 2}"}

    ended = client.wait(client.submit_texts(texts))

    innocent = {name: text for name, text in texts.items() if name != "stall"}
    assert client.answers(ended) == right_answers(innocent)
    assert client.failures(ended) == {"stall": "worker_lost"}
    assert stack.exits == list[Exit]()


@pytest.mark.law("P26")
def test_a_worker_whose_engine_hangs_loses_its_leases_and_is_replaced(
    client: FaultClient, stack: FaultStack
) -> None:
    """It exits with 70 and says why, though its process and its beat live."""
    stack.exits.clear()
    texts = plain_texts(20) | {"hung": f"hang-once {stack.folder / 'hung'}"}

    ended = client.wait(client.submit_texts(texts))

    (hung,) = stack.exits
    assert hung.code == 70
    assert _HUNG in stack.log(hung.name)
    assert client.answers(ended) == right_answers(texts)


@pytest.mark.law("P27")
def test_a_step_that_is_busy_for_longer_than_a_lease_lasts_loses_no_lease(
    client: FaultClient, stack: FaultStack
) -> None:
    stack.exits.clear()
    seconds = (TTL + HANG_AFTER) / 2

    ended = client.wait(client.submit_texts({"long": f"busy {seconds}"}))

    attempts = stack.column("SELECT attempt FROM shards WHERE job_id = :id", id=ended.id[6:])
    assert (ended.status, attempts, stack.exits) == ("completed", [1], list[Exit]())


@pytest.mark.law("P27")
@pytest.mark.skipif(not FULL, reason="half a minute; the short form is above")
def test_half_a_minute_in_one_step_loses_no_lease() -> None:
    """Seven times the lease, where the watchdog allows it."""
    with open_folder() as folder:
        stack = FaultStack(folder, settings={"WATCHDOG__HANG_AFTER": "PT60S"})
        try:
            client = FaultClient(stack.facts)
            with client:
                ended = client.wait(client.submit_texts({"long": "busy 30"}))
            attempts = stack.column("SELECT attempt FROM shards")
        finally:
            stack.stop()

    assert (ended.status, attempts, stack.exits) == ("completed", [1], list[Exit]())
