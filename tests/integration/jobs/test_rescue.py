"""Laws 5 and 6: a dead worker's shards run again, and a request that kills is found."""

import threading
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from jobs import job_leases, leases, rescue, results, workers
from jobs.errors import LeaseLost
from jobs.job_leases import JobLease
from jobs.leases import ShardLease
from jobs.models import JobState
from jobs.rescue import Rescued, Suspect
from tests.fixtures.passing_time import pass_time
from tests.fixtures.work import LONG, NO_TIME, Work, segment_of

NOBODY = Rescued(died=0, spared=0)
AGES = timedelta(days=365)


def suspects(work: Work) -> list[Suspect]:
    with work.sessions() as session:
        return rescue.suspects(session)


def die_holding(work: Work, *, alone: bool = False) -> list[ShardLease]:
    """A worker claims what is next, takes it alone if it is solo, and dies."""
    me = work.add_worker()
    claimed = work.claim(me)
    if alone:
        with work.sessions.begin() as session:
            leases.take_alone(session, claimed[0])
    work.kill(me)
    work.rescue()
    return claimed


def test_a_dead_workers_shards_are_queued_again_and_a_live_ones_are_not(work: Work) -> None:
    job_id = work.add_planned_batch([1, 1])
    dead, alive = work.add_worker(), work.add_worker()
    work.claim(dead, room=1)
    work.claim(alive, room=1)
    work.kill(dead)

    assert work.rescue().died == 1
    assert work.shard_states(job_id) == ["queued", "leased"]
    assert work.rescue() == NOBODY


def test_finished_rows_of_a_dead_worker_stay_and_only_the_rest_is_missing(work: Work) -> None:
    job_id = work.add_planned_batch([4])
    me = work.add_worker()
    (lease,) = work.claim(me)
    work.flush(lease, segment_of(job_id, [0, 2]))
    work.kill(me)
    work.rescue()

    with work.sessions() as session:
        assert results.finished(session, job_id, [0, 1, 2, 3]) == {0, 2}


def test_a_rescued_shard_of_a_stopping_job_is_cancelled(work: Work) -> None:
    job_id = work.add_planned_batch([1])
    me = work.add_worker()
    work.claim(me)
    work.cancel(job_id)
    work.kill(me)

    work.rescue()

    assert work.shard_states(job_id) == ["cancelled"]


def test_a_beat_under_way_keeps_its_shards(work: Work) -> None:
    """The row as committed has lapsed, but the beat that renews it holds its lock."""
    work.add_planned_batch([1])
    me = work.add_worker(ttl=timedelta(milliseconds=300))
    (lease,) = work.claim(me)

    with work.sessions.begin() as beating:
        assert workers.beat(beating, me, ttl=LONG, progress=1, stats={})
        while not work.scalar(
            "SELECT beat_until < now() FROM workers WHERE incarnation = :me", me=me
        ):
            pass
        assert work.rescue() == NOBODY

    work.flush(lease, segment_of(lease.job_id, [0]))
    assert work.rescue() == NOBODY


@pytest.mark.law("P1")
def test_a_late_flush_and_a_rescue_never_both_win(work: Work) -> None:
    """Twenty races: either the rows landed before the rescue, or the flush was refused."""
    for _ in range(20):
        job_id = work.add_planned_batch([1])
        me = work.add_worker()
        (lease,) = work.claim(me)
        work.kill(me)
        start, refused = threading.Barrier(2), list[bool]()

        def flush(lease=lease, job_id=job_id, start=start, refused=refused):
            start.wait()
            try:
                work.flush(lease, segment_of(job_id, [0]), complete=True)
            except LeaseLost:
                refused.append(True)

        racer = threading.Thread(target=flush)
        racer.start()
        start.wait()
        work.rescue()
        racer.join()

        expected = ("queued", 0) if refused else ("done", 1)
        landed = work.scalar("SELECT count(*) FROM results WHERE job_id = :job_id", job_id=job_id)
        (state,) = work.shard_states(job_id)
        # The sweep skips a row that the flush has locked; the flush has won then.
        assert (state, landed) == expected
        work.cancel(job_id)


def test_a_shard_is_solo_from_its_second_death(work: Work) -> None:
    work.add_planned_batch([1])

    (first,) = die_holding(work)
    (second,) = die_holding(work)
    (third,) = work.claim(work.add_worker())

    assert [lease.solo for lease in (first, second, third)] == [False, False, True]


def test_a_death_beside_others_is_no_death_alone(work: Work) -> None:
    work.add_planned_batch([1])
    for _ in range(5):
        die_holding(work)

    assert suspects(work) == []


def test_a_rescued_shard_waits_twice_as_long_after_each_death_up_to_eight_times(
    work: Work,
) -> None:
    work.add_planned_batch([1])
    waits = "SELECT round(extract(epoch FROM not_before - now())) FROM shards"
    waited = []

    for _ in range(5):
        me = work.add_worker()
        assert work.claim(me)
        work.kill(me)
        with work.sessions.begin() as session:
            rescue.rescue_shards(session, ttl=LONG, silence=AGES, backoff=timedelta(minutes=1))
        waited.append(int(str(work.scalar(waits))) // 60)
        pass_time(work.sessions, timedelta(hours=1))

    assert waited == [1, 2, 4, 8, 8]


@pytest.mark.law("P14")
def test_a_killer_is_halved_down_to_one_line_which_is_answered(work: Work) -> None:
    job_id = work.add_planned_batch([8])
    killer, deaths = 5, 0

    while work.open_shards(job_id):
        me = work.add_worker()
        claimed = work.claim(me)
        if not claimed:
            _settle_all(work)
            continue
        for lease in claimed:
            if lease.solo:
                with work.sessions.begin() as session:
                    leases.take_alone(session, lease)
            if lease.first_line <= killer < lease.end_line:
                deaths += 1
                work.kill(me)
                work.rescue()
                break
            rows = range(lease.first_line, lease.end_line)
            work.flush(lease, segment_of(job_id, list(rows)), complete=True)
        _settle_all(work)

    landed = "SELECT count(*) FROM results WHERE job_id = :job_id AND ok = :ok"
    assert work.scalar(landed, job_id=job_id, ok=True) == 7
    assert work.scalar(landed, job_id=job_id, ok=False) == 1
    assert work.scalar("SELECT index FROM results WHERE NOT ok") == killer
    # Two to become solo, one a halving of eight lines, and two of the one line alone.
    assert deaths == 2 + 3 + 2


@pytest.mark.law("P34")
def test_two_sweepers_split_a_suspect_once(work: Work) -> None:
    job_id = work.add_planned_batch([4])
    for _ in range(2):
        die_holding(work)
    die_holding(work, alone=True)
    (suspect,) = suspects(work)

    for _ in range(2):
        with work.sessions.begin() as session:
            rescue.split(session, suspect)

    assert work.shard_states(job_id) == ["split", "queued", "queued"]


def test_a_suspect_of_a_stopping_job_is_not_put_back_in_line(work: Work) -> None:
    job_id = work.add_planned_batch([4])
    for _ in range(2):
        die_holding(work)
    die_holding(work, alone=True)
    (suspect,) = suspects(work)
    work.cancel(job_id)  # between the sweeper's look and its writes

    for write in (rescue.split, rescue.try_again):
        with work.sessions.begin() as session:
            write(session, suspect)

    assert work.shard_states(job_id) == ["suspect"]


def test_suspects_of_a_cancelled_job_are_cancelled(work: Work) -> None:
    job_id = work.add_planned_batch([4])
    for _ in range(2):
        die_holding(work)
    die_holding(work, alone=True)
    work.cancel(job_id)

    with work.sessions.begin() as session:
        assert rescue.cancel_suspects(session) == 1

    assert work.shard_states(job_id) == ["cancelled"]


@pytest.mark.parametrize("holds", ["a plan", "a finalization"])
def test_a_dead_control_process_gives_its_jobs_back(work: Work, holds: str) -> None:
    me = work.add_worker()
    planning = holds == "a plan"
    job_id = work.add_batch() if planning else work.add_settled_batch()
    claim: Callable[[UUID], JobLease] = work.claim_plan if planning else work.begin_finalizing
    first = claim(me)
    work.kill(me)

    with work.sessions.begin() as session:
        assert rescue.release_jobs(session, backoff=NO_TIME) == 1
    second = claim(work.add_worker())

    assert first.job_id == second.job_id == job_id
    assert second.attempt == first.attempt + 1


def test_a_job_that_a_frozen_planner_locks_keeps_no_other_from_being_given_back(
    work: Work,
) -> None:
    frozen, dead = (work.add_worker() for _ in range(2))
    work.add_batch()
    locked = work.claim_plan(frozen)
    given_back = work.add_batch()
    work.claim_plan(dead)
    work.kill(frozen)
    work.kill(dead)

    with work.sessions() as copying, work.sessions.begin() as session:
        job_leases.hold(copying, locked, JobState.VALIDATING)
        assert rescue.release_jobs(session, backoff=NO_TIME) == 1

    assert work.claim_plan(work.add_worker()).job_id == given_back


def _settle_all(work: Work) -> None:
    for suspect in suspects(work):
        if suspect.is_guilty:
            with work.sessions.begin() as session:
                lost = segment_of(suspect.job_id, [suspect.first_line], ok=False)
                results.flush_lost(session, suspect, lost)
            continue
        with work.sessions.begin() as session:
            (rescue.try_again if suspect.is_one_line else rescue.split)(session, suspect)
