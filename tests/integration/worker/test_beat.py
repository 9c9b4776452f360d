"""The beat keeps a process's leases, obeys its replies, and outlives its incarnations."""

import threading
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from jobs.models import WorkerKind
from jobs.workers import Held
from tests.fixtures.work import Work
from tests.fixtures.workers import beat_of
from worker.beat import Beat, Rhythm

QUICK = Rhythm(timedelta(milliseconds=50), timedelta(seconds=30), timedelta(seconds=20))
DEADLINE = 20.0  # seconds


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
    assert until(lambda: beat.incarnation != first)
    alive = "SELECT beat_until > now() FROM workers WHERE incarnation = :me"
    assert work.scalar(alive, me=beat.incarnation)
    assert not work.scalar(alive, me=first)


def test_retiring_ends_the_lease_at_once(work: Work) -> None:
    beat = beat_of(work, WorkerKind.INFERENCE, Holding(), rhythm=QUICK)

    beat.retire()

    alive = "SELECT beat_until > now() FROM workers WHERE incarnation = :me"
    assert not work.scalar(alive, me=beat.incarnation)


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


def until(there) -> bool:
    """Whether `there()` becomes true in time."""
    waiting, step = DEADLINE, 0.02
    pause = threading.Event()
    while not there():
        if waiting <= 0:
            return False
        pause.wait(step)
        waiting -= step
    return True
