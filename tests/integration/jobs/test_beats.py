"""What a beat renews, and what its reply says."""

import uuid
from datetime import timedelta

from jobs import leases, workers
from jobs.models import WorkerKind
from jobs.workers import BeatReply, Held, Identity
from tests.fixtures.work import LONG, MODEL, NO_TIME, Work


def beat(work: Work, me: uuid.UUID) -> bool:
    with work.sessions.begin() as session:
        return workers.beat(session, me, ttl=LONG, progress=1, stats={"running": 1})


def compare(work: Work, me: uuid.UUID, held: list[Held]) -> BeatReply:
    with work.sessions() as session:
        return workers.compare(session, me, held)


def test_a_beat_keeps_an_incarnation_alive_and_never_revives_one(work: Work) -> None:
    me = work.add_worker()

    assert beat(work, me)
    work.kill(me)
    assert not beat(work, me)


def test_a_process_that_was_seen_to_die_is_not_waited_for_and_no_other_is_hurt(work: Work) -> None:
    dead, alive = uuid.uuid4(), work.add_worker()
    with work.sessions.begin() as session:
        identity = Identity(dead, WorkerKind.INFERENCE, MODEL, "host", 77)
        workers.register(session, identity, ttl=LONG)

    with work.sessions.begin() as session:
        workers.bury(session, host="elsewhere", pid=77)
    spared = beat(work, dead)
    with work.sessions.begin() as session:
        workers.bury(session, host="host", pid=77)

    assert spared
    assert not beat(work, dead)
    assert beat(work, alive)


def test_the_reply_is_silent_about_what_is_well(work: Work) -> None:
    work.add_planned_batch([1, 1])
    me = work.add_worker()
    held = [lease.held for lease in work.claim(me)]

    assert compare(work, me, held) == BeatReply([], [])


def test_a_shard_of_a_stopping_job_is_to_be_stopped(work: Work) -> None:
    job_id = work.add_planned_batch([1])
    me = work.add_worker()
    (lease,) = work.claim(me)
    work.cancel(job_id)

    assert compare(work, me, [lease.held]).stop == [lease.held]


def test_a_shard_that_another_claimed_is_to_be_stopped(work: Work) -> None:
    work.add_planned_batch([1])
    me, other = work.add_worker(), work.add_worker()
    (lease,) = work.claim(me)
    with work.sessions.begin() as session:
        leases.hand_back(session, lease.held, me, after=NO_TIME)
    work.claim(other)

    assert compare(work, me, [lease.held]) == BeatReply([lease.held], [])


def test_a_shard_leased_to_one_that_does_not_know_it_is_unknown(work: Work) -> None:
    work.add_planned_batch([1])
    me = work.add_worker()
    (lease,) = work.claim(me)

    assert compare(work, me, []) == BeatReply([], [lease.held])


def test_a_dead_worker_that_holds_nothing_is_forgotten_and_others_are_not(work: Work) -> None:
    work.add_planned_batch([1])
    holder, idle, alive = work.add_worker(), work.add_worker(), work.add_worker()
    work.claim(holder)
    work.kill(holder)
    work.kill(idle)

    with work.sessions.begin() as session:
        workers.forget_dead(session, age=timedelta(seconds=-1))

    known = "SELECT count(*) FROM workers WHERE incarnation = :me"
    assert [work.scalar(known, me=me) for me in (holder, idle, alive)] == [1, 0, 1]
    assert work.rescue().died == 1
