"""Which lapsed beats are deaths: not those of an outage, but always those that somebody saw."""

from datetime import timedelta
from uuid import UUID

import pytest

from jobs import leases, workers
from jobs.rescue import Rescued
from tests.fixtures.passing_time import pass_time
from tests.fixtures.work import Work

# In hours, so that the time which the test itself takes is nothing.
TTL, SILENCE = timedelta(hours=20), timedelta(hours=10)
CALL = timedelta(hours=3)


def crashes(work: Work, job_id: UUID) -> object:
    return work.scalar("SELECT max(crashes) FROM shards WHERE job_id = :job_id", job_id=job_id)


def beat(work: Work, me: UUID) -> bool:
    with work.sessions.begin() as session:
        return workers.beat(session, me, ttl=TTL, progress=1, stats={})


def bury(work: Work) -> None:
    with work.sessions.begin() as session:
        workers.bury(session, host="host", pid=1)


def call_the_roll(work: Work) -> Rescued:
    return work.rescue(ttl=TTL, silence=SILENCE)


@pytest.mark.parametrize("outage", [timedelta(hours=17), timedelta(hours=60)])
def test_a_fleet_that_the_database_kept_from_beating_is_not_taken_for_dead(
    work: Work, outage: timedelta
) -> None:
    job_id = work.add_planned_batch([1, 1])
    for _ in range(4):
        call_the_roll(work)
        fleet = [work.add_worker(ttl=TTL) for _ in range(2)]
        for me in fleet:
            (lease,) = work.claim(me, room=1)
            with work.sessions.begin() as session:
                leases.take_alone(session, lease)
        pass_time(work.sessions, outage)
        call_the_roll(work)
        pass_time(work.sessions, CALL)  # none of them is in time for its next beat
        call_the_roll(work)
        pass_time(work.sessions, TTL)

    assert work.shard_states(job_id) == ["queued", "queued"]
    assert crashes(work, job_id) == 0


def test_who_beat_again_after_an_outage_and_fell_silent_has_died(work: Work) -> None:
    job_id = work.add_planned_batch([1])
    call_the_roll(work)
    me = work.add_worker(ttl=TTL)
    work.claim(me)
    pass_time(work.sessions, timedelta(hours=12))  # the database is away
    call_the_roll(work)
    assert beat(work, me)

    for _ in range(7):
        pass_time(work.sessions, CALL)
        call_the_roll(work)

    assert (work.shard_states(job_id), crashes(work, job_id)) == (["queued"], 1)


def test_who_died_while_the_roll_was_called_has_died(work: Work) -> None:
    job_id = work.add_planned_batch([1])
    me = work.add_worker(ttl=TTL)
    work.claim(me)

    died = 0
    for _ in range(8):
        died += call_the_roll(work).died
        pass_time(work.sessions, CALL)

    assert died == 1
    assert (work.shard_states(job_id), crashes(work, job_id)) == (["queued"], 1)


@pytest.mark.parametrize("silence", [timedelta(hours=12), timedelta(hours=30)])
@pytest.mark.parametrize("seen", [True, False])
def test_a_death_that_was_seen_counts_though_the_roll_was_not_called(
    work: Work, seen: bool, silence: timedelta
) -> None:
    """Also where the beat had lapsed before somebody could say so."""
    job_id = work.add_planned_batch([1])
    call_the_roll(work)
    me = work.add_worker(ttl=TTL)
    work.claim(me)
    pass_time(work.sessions, silence)  # no control process runs

    if seen:
        bury(work)
    else:
        work.kill(me)

    assert call_the_roll(work) == Rescued(died=int(seen), spared=int(not seen))
    assert crashes(work, job_id) == int(seen)


def test_nobody_has_died_of_what_a_process_held_that_resigned_before_it_was_buried(
    work: Work,
) -> None:
    work.add_planned_batch([1])
    me = work.add_worker()
    work.claim(me)
    with work.sessions.begin() as session:
        workers.retire(session, me)

    bury(work)

    assert work.rescue() == Rescued(died=0, spared=1)


def test_nobody_has_died_of_what_a_process_that_resigned_had_held(work: Work) -> None:
    job_id = work.add_planned_batch([1])
    me = work.add_worker()
    work.claim(me)

    with work.sessions.begin() as session:
        workers.retire(session, me)

    assert work.rescue() == Rescued(died=0, spared=1)
    assert (work.shard_states(job_id), crashes(work, job_id)) == (["queued"], 0)
