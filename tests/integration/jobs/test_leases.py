"""Laws 4 and 5: who may work on a shard, and who may write about it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, create_engine, text

from jobs import leases, results, workers
from jobs.errors import LeaseLost
from tests.fixtures.work import MODEL, NO_TIME, PLENTY, Work, segment_of


@pytest.mark.law("P33")
def test_concurrent_claims_share_no_shard_and_leave_none(work: Work) -> None:
    work.add_planned_batch([1] * 200)
    claimers = [work.add_worker() for _ in range(8)]
    together = threading.Barrier(len(claimers))

    def claim_all(me):
        together.wait()
        got = []
        while claimed := work.claim(me, room=500):
            got += [lease.shard_id for lease in claimed]
        return got

    with ThreadPoolExecutor(len(claimers)) as pool:
        claimed = [shard for got in pool.map(claim_all, claimers) for shard in got]

    # A claim may find the head of the line locked and go away empty; nobody takes a shard twice.
    claimed += [lease.shard_id for lease in work.claim(claimers[0])]
    while more := work.claim(claimers[0]):
        claimed += [lease.shard_id for lease in more]
    assert len(claimed) == len(set(claimed)) == 200


def test_a_claim_takes_what_fits_the_room_and_one_at_least(work: Work) -> None:
    work.add_planned_batch([1] * 5, cost=100)
    me = work.add_worker()

    assert len(work.claim(me, room=250)) == 2
    assert len(work.claim(me, room=1)) == 1
    assert len(work.claim(me, room=0)) == 0


def test_a_shard_is_fresh_once_and_never_where_lines_were_refused(work: Work) -> None:
    work.add_planned_batch([2])
    me = work.add_worker()
    (first,) = work.claim(me)

    work.hand_back(first)
    (second,) = work.claim(me)
    work.add_planned_batch([2])
    with work.sessions.begin() as session:  # as planning leaves a file with lines to skip
        session.execute(text("UPDATE jobs SET errors = '[]' WHERE id <> :id"), {"id": first.job_id})
    (refused,) = work.claim(me)

    assert [lease.fresh for lease in (first, second, refused)] == [True, False, False]


def test_interactive_work_goes_first_and_whatever_the_room(work: Work) -> None:
    work.add_planned_batch([1, 1])
    urgent = work.add_request(interactive=True)
    me = work.add_worker()

    claimed = work.claim(me, room=0)

    assert [lease.job_id for lease in claimed] == [urgent]


def test_a_resident_prefix_is_preferred_among_bulk(work: Work) -> None:
    work.add_planned_batch([1], prefix_key="cold")
    warm = work.add_planned_batch([1], prefix_key="warm")
    me = work.add_worker()

    claimed = work.claim(me, room=1, resident=["warm"])

    assert [lease.job_id for lease in claimed] == [warm]


def test_a_claim_says_how_many_lines_of_its_prefix_stand_behind_it(work: Work) -> None:
    work.add_planned_batch([2, 3, 4], prefix_key="shared")
    work.add_planned_batch([5], prefix_key="shared")  # across jobs
    work.add_planned_batch([7], prefix_key="other")
    work.add_planned_batch([8])
    me = work.add_worker()

    claims = [work.claim(me, room=1) for _ in range(6)]

    assert [lease.followers for [lease] in claims] == [12, 9, 5, 0, 0, 0]


def test_a_solo_shard_is_claimed_by_itself(work: Work) -> None:
    job_id = work.add_planned_batch([1, 1, 1])
    me = work.add_worker()
    with work.sessions.begin() as session:
        session.execute(
            text("UPDATE shards SET solo = true WHERE id = (SELECT min(id) FROM shards)")
        )

    first, rest = work.claim(me), work.claim(me)

    assert [lease.solo for lease in first] == [True]
    assert [lease.solo for lease in rest] == [False, False]
    assert work.shard_states(job_id) == ["leased"] * 3


@pytest.mark.parametrize("gone", ["dead", "draining"])
def test_a_worker_that_is_dead_or_draining_claims_nothing(work: Work, gone: str) -> None:
    work.add_planned_batch([1])
    me = work.add_worker()
    with work.sessions.begin() as session:
        (workers.retire if gone == "dead" else workers.drain)(session, me)

    assert work.claim(me) == []


@pytest.mark.law("I2")
def test_a_claim_raises_the_attempt_and_nothing_lowers_it(work: Work) -> None:
    work.add_planned_batch([1])
    me = work.add_worker()
    attempts = []

    for _ in range(3):
        (lease,) = work.claim(me)
        attempts.append(lease.attempt)
        with work.sessions.begin() as session:
            assert leases.hand_back(session, lease.held, me, after=NO_TIME)

    assert attempts == [1, 2, 3]


@pytest.mark.law("P2")
def test_a_worker_whose_lease_passed_on_changes_nothing(work: Work) -> None:
    job_id = work.add_planned_batch([2])
    me, other = work.add_worker(), work.add_worker()
    (old,) = work.claim(me)
    with work.sessions.begin() as session:
        leases.hand_back(session, old.held, me, after=NO_TIME)
    (new,) = work.claim(other)

    for write in (
        lambda session: results.flush(session, old, segment_of(job_id, [0])),
        lambda session: leases.complete(session, old),
        lambda session: leases.take_alone(session, old),
    ):
        with pytest.raises(LeaseLost), work.sessions.begin() as session:
            write(session)
    with work.sessions.begin() as session:
        assert not leases.hand_back(session, old.held, me, after=NO_TIME)

    assert work.scalar("SELECT count(*) FROM results") == 0
    assert work.shard_states(job_id) == ["leased"]
    work.flush(new, segment_of(job_id, [0, 1]), complete=True)
    assert work.shard_states(job_id) == ["done"]


def test_the_same_owner_at_an_older_attempt_changes_nothing(work: Work) -> None:
    job_id = work.add_planned_batch([1])
    me = work.add_worker()
    (old,) = work.claim(me)
    with work.sessions.begin() as session:
        leases.hand_back(session, old.held, me, after=NO_TIME)
    work.claim(me)

    with pytest.raises(LeaseLost):
        work.flush(old, segment_of(job_id, [0]))


def test_a_handed_back_shard_waits_as_long_as_it_was_told(work: Work) -> None:
    work.add_planned_batch([1])
    me = work.add_worker()
    (lease,) = work.claim(me)

    with work.sessions.begin() as session:
        leases.hand_back(session, lease.held, me, after=timedelta(hours=1))

    assert work.claim(me) == []


def test_rows_flushed_twice_are_counted_once(work: Work) -> None:
    job_id = work.add_planned_batch([3])
    (lease,) = work.claim(work.add_worker())
    segment = segment_of(job_id, [0, 1])

    work.flush(lease, segment)
    work.flush(lease, segment)  # the answer to the first COMMIT was lost

    assert work.scalar("SELECT count(*) FROM segments") == 1
    assert work.scalar("SELECT sum(ok) FROM segments") == 2
    with work.sessions() as session:
        assert results.finished(session, job_id, [0, 1, 2]) == {0, 1}


@pytest.mark.law("I5")
def test_of_rows_that_are_flushed_again_with_others_only_the_others_count(work: Work) -> None:
    """As where the answer to a COMMIT was lost and another row finished meanwhile."""
    job_id = work.add_planned_batch([3])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [0]))
    once = "SELECT ROW(sum(ok), sum(input_tokens), sum(cached_tokens), sum(output_tokens))::text"

    work.flush(lease, segment_of(job_id, [0, 1, 2]))

    assert work.scalar(f"{once} FROM segments") == "(3,9,6,3)"


@pytest.fixture
def reader(database_url: str) -> Iterator[Engine]:
    """Keeps its snapshots for as long as it likes: none of our limits ends it."""
    engine = create_engine(database_url, isolation_level="REPEATABLE READ")
    yield engine
    engine.dispose()


@pytest.mark.law("P24")
@pytest.mark.parametrize("statistics", ["old", "new"])
def test_a_claim_reads_the_head_of_the_line_whatever_lies_behind_it(
    work: Work, statistics: str
) -> None:
    """Straight after a bulk load, too, when the database still thinks the table empty."""
    work.add_planned_batch([1] * 3000)
    if statistics == "new":
        with work.sessions.begin() as session:
            session.execute(text("ANALYZE shards"))

    plan = claim_plan(work, work.add_worker())

    walks = [node for node in nodes(plan) if node.get("Index Name") == "shards_line"]
    assert [node["Actual Rows"] for node in walks] == [64]
    assert not [node for node in nodes(plan) if node["Node Type"] == "Seq Scan"]


@pytest.mark.law("P24")
def test_beside_an_old_snapshot_a_claim_passes_what_has_died_and_reads_no_more_of_the_line(
    work: Work, reader: Engine
) -> None:
    job_id = work.add_planned_batch([1] * 3000, cost=1)
    me = work.add_worker()
    with reader.connect() as old:
        old.execute(text("SELECT count(*) FROM shards"))  # nothing that dies now is cleared away
        for _ in range(30):
            for lease in work.claim(me, room=20):
                work.flush(lease, segment_of(job_id, [lease.shard_id]), complete=True)

        plan = claim_plan(work, me)

    (walk,) = [node for node in nodes(plan) if node.get("Index Name") == "shards_line"]
    assert walk["Actual Rows"] == 64
    blocks = walk["Shared Hit Blocks"] + walk["Shared Read Blocks"]
    assert blocks < 600 + 2 * 64 + 20  # one for each dead entry at most, and for each live one


def claim_plan(work: Work, me: UUID) -> dict[str, Any]:
    """How the database ran a claim, which is not kept."""
    values = {"me": me, "model": MODEL, "room": PLENTY, "resident": []}
    explain = text("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + leases.CLAIM.text)
    with work.sessions() as session:
        session.execute(leases.PIN_PLAN)
        (ran,) = session.execute(explain.bindparams(**values)).scalar_one()
        plan: dict[str, Any] = ran["Plan"]
        session.rollback()
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)
