"""Postgres, S3 and the spools' disk fail under running batches, and come back."""

import signal

import pytest

from tests.chaos import faults
from tests.chaos.batches import FaultClient, plain_texts, some_are_done
from tests.chaos.invariants import Checked, leases_of_the_dead
from tests.chaos.meanwhile import meanwhile
from tests.chaos.scale import full_or_short
from tests.fixtures.fault_stack import FaultStack, wait_for
from tests.fixtures.toxic_proxy import Kind, Toxic

_TEXTS = plain_texts(120, seconds=0.3)
_INTO_THE_ANSWER = 300  # bytes: its head has come, and part of its body where it has one


def test_postgres_restarted_at_once_under_running_work_loses_nothing(
    client: FaultClient, stack: FaultStack
) -> None:
    batch = client.wait_for(client.submit_texts(_TEXTS), some_are_done)

    stack.signal("postgres", signal.SIGQUIT)

    Checked(stack, client, client.wait(batch), _TEXTS).check()


@pytest.mark.law("P4")
def test_postgres_restarted_in_the_middle_of_a_rescue_leaves_nothing_leased_to_the_dead(
    client: FaultClient, stack: FaultStack
) -> None:
    """Each rescue waits, its rows written and not committed, until the server goes with it."""
    for _ in range(full_or_short(20, 1)):
        batch = client.wait_for(client.submit_texts(_TEXTS), some_are_done)
        with faults.barred_rescues(stack):
            for name in stack.names("worker"):
                stack.kill(name)
            wait_for(lambda: stack.column(faults.RESCUES_AT_THE_BAR) != [0])
            stack.signal("postgres", signal.SIGQUIT)
            stack.wait_until_well()
        wait_for(lambda: leases_of_the_dead(stack) == 0)

        Checked(stack, client, client.wait(batch), _TEXTS).check()


def test_connections_to_postgres_cut_between_any_two_statements_lose_nothing(
    client: FaultClient, stack: FaultStack
) -> None:
    batch, cuts = client.submit_texts(_TEXTS), list[int]()

    def cut() -> None:
        stack.run(faults.CUT_POSTGRES_CLIENTS)
        cuts.append(len(cuts))

    with meanwhile(cut, pause=0.05):
        wait_for(lambda: len(cuts) > 30)

    Checked(stack, client, client.wait(batch), _TEXTS).check()


def test_a_full_database_stops_work_and_ends_nobody(client: FaultClient, stack: FaultStack) -> None:
    batch = client.wait_for(client.submit_texts(_TEXTS), some_are_done)
    before = stack.pids()

    with faults.full_database(stack):
        wait_for(lambda: "No space left on device" in stack.log("worker-0"))
    ended = client.wait(batch)

    Checked(stack, client, ended, _TEXTS).check()
    assert stack.pids() == before


def test_a_full_disk_under_the_spools_delays_the_files_and_ends_nobody(
    client: FaultClient, stack: FaultStack
) -> None:
    before = stack.pids()

    with stack.full_spool():
        batch = client.submit_texts(plain_texts(20))
        finalizing = client.wait(batch, until=["finalizing"])
        assert finalizing.output_file_id is None
        wait_for(lambda: _tries(stack, batch.id) > 1)
    ended = client.wait(batch)

    Checked(stack, client, ended, plain_texts(20)).check()
    assert stack.pids() == before


def test_s3_in_every_bad_mood_delays_a_batch_and_changes_nothing_in_it(
    client: FaultClient, stack: FaultStack
) -> None:
    for kind in Kind:
        texts = plain_texts(20)

        with stack.proxy.toxic(Toxic(kind, after=_INTO_THE_ANSWER, times=5)) as toxic:
            batch = client.submit_texts(texts)
            wait_for(lambda toxic=toxic: toxic.strikes > 0)
        ended = client.wait(batch)

        Checked(stack, client, ended, texts).check()


def _tries(stack: FaultStack, batch_id: str) -> int:
    query = "SELECT attempt FROM jobs WHERE id = :id"
    return int(stack.column(query, id=batch_id.removeprefix("batch_"))[0])
