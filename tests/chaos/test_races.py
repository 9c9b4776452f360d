"""Laws 4 and 5 between threads that truly run at once, each on connections of its own."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from jobs import rescue, workers
from jobs.database import connect, sessions_of
from jobs.errors import LeaseLost
from jobs.leases import ShardLease
from tests.chaos.scale import full_or_short
from tests.fixtures.passing_time import pass_time
from tests.fixtures.work import LONG, NO_TIME, Work, segment_of

# In hours, so that the time which the test itself takes is nothing.
_TTL, _SILENCE = timedelta(hours=20), timedelta(hours=10)
_BEAT = timedelta(hours=4)


@pytest.fixture
def crowd(database_url: str) -> Iterator[Engine]:
    """Connections enough for all who race."""
    engine = connect(database_url, pool_size=16)
    yield engine
    engine.dispose()


@pytest.fixture
def work(crowd: Engine, work: Work) -> Work:
    work.sessions = sessions_of(crowd)
    return work


def at_once(*acts: Callable[[], object]) -> list[object]:
    """What each of the acts returns; they begin together."""
    together = threading.Barrier(len(acts))

    def act(wanted: Callable[[], object]) -> object:
        together.wait()
        return wanted()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act, acts))


def beat(work: Work, me: UUID) -> bool:
    with work.sessions.begin() as session:
        return workers.beat(session, me, ttl=_TTL, progress=0, stats={})


def call_the_roll(work: Work) -> None:
    work.rescue(ttl=_TTL, silence=_SILENCE)


def settle(work: Work, lease: ShardLease) -> bool:
    """False if the lease has passed on."""
    only_row = lease.shard_id  # any number, so that each shard has its own
    try:
        work.flush(lease, segment_of(lease.job_id, [only_row]), complete=True)
    except LeaseLost:
        return False
    return True


@pytest.mark.law("P1")
def test_a_rescue_that_races_a_completion_changes_nothing_that_is_done(work: Work) -> None:
    """Whoever wins, a shard that was said to be done is done, and its row is there."""
    rounds = full_or_short(2_500, 60)  # ten thousand shards
    job_id = work.add_planned_batch([1] * 4 * rounds, cost=1)
    chance, said = random.Random(0), set[int]()

    def finish(lease: ShardLease) -> None:
        if settle(work, lease):
            said.add(lease.shard_id)

    for _ in range(rounds):
        me = work.add_worker()
        acts: list[Callable[[], object]] = [partial(work.kill, me), work.rescue, work.rescue]
        acts += [partial(finish, lease) for lease in work.claim(me, room=4)]
        chance.shuffle(acts)
        at_once(*acts)
        work.rescue()

    with work.sessions() as session:
        done = set(session.scalars(text("SELECT id FROM shards WHERE state = 'done'")))
    assert done == said
    counted = "SELECT count(*) FROM results WHERE job_id = :job_id"
    assert work.scalar(counted, job_id=job_id) == len(done) > 0


@pytest.mark.law("P3")
def test_a_healthy_shard_that_takes_ten_ttls_is_never_rescued(work: Work) -> None:
    work.add_planned_batch([1])
    me = work.add_worker(ttl=_TTL)
    (lease,) = work.claim(me)

    for _ in range(10 * int(_TTL / _BEAT)):
        assert beat(work, me)
        call_the_roll(work)
        pass_time(work.sessions, _BEAT)

    assert work.scalar("SELECT attempt FROM shards") == lease.attempt
    assert settle(work, lease)


@pytest.mark.law("P4")
@pytest.mark.law("I7")
def test_nothing_stays_leased_to_the_dead_though_every_rescue_is_cut_off_once(
    work: Work, database: Engine
) -> None:
    """Each rescue's connection is ended in the middle of its transaction; the next one does it."""
    job_id = work.add_planned_batch([1] * 8, cost=1)
    me = work.add_worker()
    work.claim(me)
    work.kill(me)

    with pytest.raises(SQLAlchemyError):
        _rescue_cut_off(work, database)

    assert work.shard_states(job_id) == ["leased"] * 8
    work.rescue()
    assert work.shard_states(job_id) == ["queued"] * 8


def _rescue_cut_off(work: Work, database: Engine) -> None:
    kill = text("SELECT pg_terminate_backend(:pid, 5000)")
    with work.sessions.begin() as session:
        rescue.rescue_shards(session, ttl=LONG, silence=LONG, backoff=NO_TIME)
        pid = session.scalar(text("SELECT pg_backend_pid()"))
        with database.connect() as other:
            other.execute(kill, {"pid": pid})


@pytest.mark.law("P5")
@pytest.mark.law("P33")
def test_of_two_rescuers_and_a_stale_claimer_one_claim_comes(work: Work) -> None:
    for _ in range(full_or_short(500, 30)):
        job_id = work.add_planned_batch([1])
        dead, heirs = work.add_worker(), [work.add_worker() for _ in range(3)]
        (old,) = work.claim(dead)
        work.kill(dead)

        claimed = list[ShardLease]()
        was_settled, *_ = at_once(
            partial(settle, work, old),
            work.rescue,
            work.rescue,
            *[partial(_claim_into, work, heir, claimed) for heir in heirs],
        )
        work.rescue()
        for heir in heirs:
            _claim_into(work, heir, claimed)

        assert len(claimed) == (0 if was_settled else 1)
        assert all(lease.attempt == old.attempt + 1 for lease in claimed)
        work.cancel(job_id)


def _claim_into(work: Work, me: UUID, claimed: list[ShardLease]) -> None:
    claimed += work.claim(me)


@pytest.mark.law("P6")
def test_a_restart_on_the_same_host_while_the_old_process_drains_shares_no_lease(
    work: Work,
) -> None:
    job_id = work.add_planned_batch([1, 1], cost=1)
    old, new = work.add_worker(), work.add_worker()  # of one host and one pid
    (first,) = work.claim(old, room=1)
    with work.sessions.begin() as session:
        workers.drain(session, old)

    (second,) = work.claim(new)
    work.kill(new)
    work.rescue()

    assert old != new
    assert first.shard_id != second.shard_id
    assert work.claim(old) == []
    assert settle(work, first)
    assert work.shard_states(job_id) == ["done", "queued"]


@pytest.mark.law("P15")
def test_workers_that_come_and_go_never_lose_or_take_a_live_lease(work: Work) -> None:
    """A fleet is scaled up and down while rescuers and claimers race; every shard is settled by
    the first who claimed it, but for those whose worker was killed."""
    job_id = work.add_planned_batch([1] * full_or_short(2_000, 120), cost=1)
    killed, lost = set[UUID](), list[UUID]()
    over = threading.Event()

    def live_and_leave(seed: int) -> None:
        chance = random.Random(seed)
        while not over.is_set():
            me = work.add_worker()
            for _ in range(chance.randint(1, 3)):
                for lease in work.claim(me, room=3):
                    if not settle(work, lease):
                        lost.append(me)
            _leave(work, me, killed, by_force=chance.random() < 0.3)

    def rescue_all() -> None:
        while work.open_shards(job_id):
            work.rescue()
        over.set()

    at_once(rescue_all, rescue_all, *[partial(live_and_leave, n) for n in range(4)])

    assert set(lost) <= killed
    assert set(work.shard_states(job_id)) == {"done"}


def _leave(work: Work, me: UUID, killed: set[UUID], *, by_force: bool) -> None:
    """Drain and say goodbye, or die with what was claimed last."""
    if by_force:
        killed.add(me)
        work.claim(me, room=1)
        work.kill(me)
        return
    with work.sessions.begin() as session:
        workers.drain(session, me)
        workers.retire(session, me)


@pytest.mark.law("P25")
def test_many_commits_at_once_wait_for_no_lock_of_the_whole_database(
    work: Work, database: Engine
) -> None:
    """NOTIFY would take one at each COMMIT: nothing of a shard's way may ring that bell."""
    work.add_planned_batch([1] * full_or_short(4_000, 200), cost=1)
    waits = text("""
        SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l USING (pid)
         WHERE a.datname = current_database() AND NOT l.granted
           AND l.locktype = 'object' AND l.database = 0
    """)
    listened = text("""
        SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid::regclass::text IN
            ('shards', 'jobs', 'results', 'segments', 'workers', 'requests')
    """)
    over, seen = threading.Event(), list[int]()

    def run_shards() -> None:
        me = work.add_worker()
        while claimed := work.claim(me, room=2):
            for lease in claimed:
                settle(work, lease)
        over.set()

    def watch() -> None:
        with database.connect() as connection:
            while not over.is_set():
                seen.append(connection.scalar(waits) or 0)
                connection.rollback()

    at_once(watch, *[run_shards] * 6)

    assert set(seen) == {0}
    with database.connect() as connection:
        assert connection.scalar(listened) == 0
