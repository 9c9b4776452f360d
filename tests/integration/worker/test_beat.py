"""The beat keeps a process's leases, obeys its replies, and outlives its incarnations."""

import threading
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from jobs.models import WorkerKind
from jobs.workers import Held
from tests.fixtures.scripted_engine import stand_still
from tests.fixtures.until import DEADLINE, until
from tests.fixtures.work import Work
from tests.fixtures.workers import beat_of
from worker.beat import Beat, Rhythm

QUICK = Rhythm(timedelta(milliseconds=50), timedelta(seconds=30), timedelta(seconds=20))


class Holding:
    """Holds what it is given, and notes what it is told."""

    def __init__(self) -> None:
        self.shards = list[Held]()
        self.hung = False
        self.stopped, self.handed_back = list[Held](), list[Held]()
        self.told, self.dropped = threading.Event(), threading.Event()

    def held(self) -> list[Held]:
        return self.shards

    def progress(self) -> int:
        return 7

    def stats(self) -> dict[str, Any]:
        return {"running": 3}

    def is_hung(self) -> bool:
        return self.hung

    def stop(self, shards: list[Held]) -> None:
        self.stopped += shards
        if shards:
            self.told.set()

    def hand_back(self, shards: list[Held], owner: UUID) -> None:
        self.handed_back += shards
        if shards:
            self.told.set()

    def drop_all(self) -> None:
        self.shards = []
        self.dropped.set()


@pytest.fixture
def holding() -> Holding:
    return Holding()


@pytest.fixture
def beat(work: Work, holding: Holding):
    beat = beat_of(work, WorkerKind.INFERENCE, holding, rhythm=QUICK)
    yield beat
    beat.retire()


def test_a_beat_carries_progress_and_stats(work: Work, beat: Beat) -> None:
    seen = "SELECT progress = 7 AND stats = '{\"running\": 3}' FROM workers WHERE incarnation = :me"

    assert until(lambda: work.scalar(seen, me=beat.incarnation))


def test_a_cancelled_jobs_shard_is_stopped(work: Work, beat: Beat, holding: Holding) -> None:
    job_id = work.add_planned_batch()
    (lease,) = work.claim(beat.incarnation)
    holding.shards = [lease.held]

    work.cancel(job_id)

    assert holding.told.wait(DEADLINE)
    assert holding.stopped[0] == lease.held


def test_a_claim_whose_answer_was_lost_is_handed_back(
    work: Work, beat: Beat, holding: Holding
) -> None:
    work.add_planned_batch()
    (lease,) = work.claim(beat.incarnation)  # and the process never hears of it

    assert holding.told.wait(DEADLINE)
    assert holding.handed_back[0] == lease.held


def test_a_lapsed_incarnation_drops_everything_and_another_begins(
    work: Work, beat: Beat, holding: Holding
) -> None:
    first = beat.incarnation

    work.kill(first)

    assert holding.dropped.wait(DEADLINE)
    alive = "SELECT beat_until > now() FROM workers WHERE incarnation = :me"
    assert until(lambda: work.scalar(alive, me=beat.incarnation))
    assert beat.incarnation != first
    assert not work.scalar(alive, me=first)


def test_retiring_ends_the_lease_at_once(work: Work) -> None:
    beat = beat_of(work, WorkerKind.INFERENCE, Holding(), rhythm=QUICK)

    beat.retire()

    alive = "SELECT beat_until > now() FROM workers WHERE incarnation = :me"
    assert not work.scalar(alive, me=beat.incarnation)


def test_a_process_drains_and_ends_though_the_database_refuses(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    beat = beat_of(work, WorkerKind.INFERENCE, Holding())  # which is not due for an hour
    with work.sessions.begin() as session:
        session.execute(text("ALTER TABLE workers RENAME TO away"))

    beat.drain()
    beat.retire()

    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "drains unannounced",
        "ends unannounced",
    ]


def test_a_new_incarnation_says_that_the_last_one_did_not_die(
    work: Work, beat: Beat, holding: Holding
) -> None:
    first = beat.incarnation

    work.kill(first)

    resigned = "SELECT resigned FROM workers WHERE incarnation = :me"
    assert until(lambda: work.scalar(resigned, me=first))
    assert not work.scalar(resigned, me=beat.incarnation)


@pytest.mark.law("P2")
def test_the_fence_falls_while_the_beat_is_stuck_in_a_socket(work: Work, holding: Holding) -> None:
    patience = Rhythm(timedelta(milliseconds=50), timedelta(minutes=5), timedelta(milliseconds=500))
    beat = beat_of(work, WorkerKind.INFERENCE, holding, rhythm=patience)
    me = beat.incarnation
    frozen = text("SELECT 1 FROM workers WHERE incarnation = :me FOR UPDATE")

    with work.sessions.begin() as session:
        session.execute(frozen, {"me": me})  # and so the beat waits for its answer
        assert holding.dropped.wait(DEADLINE)
        assert beat.incarnation != me  # what is claimed now is claimed by nobody

    alive = "SELECT count(*) FROM workers WHERE beat_until > now() AND NOT resigned"
    assert until(lambda: work.scalar(alive) == 1)
    beat.retire()


@pytest.mark.law("P14")
def test_a_process_that_stood_still_past_its_fence_does_not_say_that_it_lived(
    work: Work, holding: Holding
) -> None:
    """A call that keeps Python's lock stops the beat and the fence with it.  What it ran for must
    count as a death, or it would stop one process after the other for ever."""
    brief = Rhythm(timedelta(seconds=1), timedelta(minutes=5), timedelta(seconds=3))
    beat = beat_of(work, WorkerKind.INFERENCE, holding, rhythm=brief)
    first = beat.incarnation

    stand_still(3.5)  # from before its first beat is due

    assert holding.dropped.wait(DEADLINE)
    over = "SELECT beat_until <= now() FROM workers WHERE incarnation = :me"
    assert until(lambda: work.scalar(over, me=first))  # with five minutes to go
    resigned = "SELECT resigned FROM workers WHERE incarnation = :me"
    assert not work.scalar(resigned, me=first)
    beat.retire()
    assert not work.scalar(resigned, me=first)


@pytest.mark.law("P27")
def test_a_thread_that_computes_without_a_pause_costs_no_beat(work: Work, holding: Holding) -> None:
    brief = Rhythm(timedelta(milliseconds=200), timedelta(seconds=4), timedelta(seconds=3))
    beat = beat_of(work, WorkerKind.INFERENCE, holding, rhythm=brief)
    first, done = beat.incarnation, threading.Event()

    def compute() -> None:
        while not done.is_set():
            sum(range(1000))

    computing = threading.Thread(target=compute)
    computing.start()
    outlived = "SELECT beat_until - started_at > 2 * CAST(:ttl AS interval) FROM workers"
    lasted = until(lambda: work.scalar(outlived, ttl=brief.ttl))
    done.set()
    computing.join()

    assert lasted
    assert beat.incarnation == first
    assert not holding.dropped.is_set()
    beat.retire()


@pytest.mark.law("P26")
def test_a_hung_engine_ends_the_process(work: Work, holding: Holding) -> None:
    ended = threading.Event()
    holding.hung = True
    beat = Beat(
        work.sessions,
        kind=WorkerKind.INFERENCE,
        model=None,
        rhythm=QUICK,
        die=lambda _: ended.set(),
    )

    beat.start(holding)

    assert ended.wait(DEADLINE)
    beat.retire()
