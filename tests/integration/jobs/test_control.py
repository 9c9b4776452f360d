"""What the owner changes reaches the line: pause, priority, deadline, metadata."""

import time
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import control, leases
from jobs.control import Change
from jobs.errors import InvalidValue, NotAllowedNow, NotFound
from jobs.leases import ShardLease
from jobs.models import WorkerKind
from tests.fixtures.work import MODEL, Work


def change(work: Work, job_id: UUID, wanted: Change) -> None:
    with work.sessions.begin() as session:
        control.change(session, tenant_id=work.tenant_id, job_id=job_id, wanted=wanted)


def jobs_of(claimed: list[ShardLease]) -> list[UUID]:
    return [lease.job_id for lease in claimed]


def test_nothing_of_a_paused_batch_is_claimed_until_it_goes_on(work: Work) -> None:
    job_id = work.add_planned_batch([1, 1])
    me = work.add_worker()

    change(work, job_id, Change(paused=True))
    while_paused = work.claim(me)
    change(work, job_id, Change(paused=False))

    assert while_paused == []
    assert jobs_of(work.claim(me)) == [job_id, job_id]


def test_what_runs_is_finished_and_what_is_handed_back_stays_paused(work: Work) -> None:
    job_id = work.add_planned_batch([1, 1, 1])
    me, dead = work.add_worker(), work.add_worker()
    first, second = work.claim(me, room=200)
    (third,) = work.claim(dead)
    change(work, job_id, Change(paused=True))

    with work.sessions.begin() as session:
        leases.complete(session, first)
    work.hand_back(second)
    work.kill(dead)
    work.rescue()

    assert third.job_id == job_id
    assert work.shard_states(job_id) == ["done", "queued", "queued"]
    assert work.claim(me) == []


def test_a_batch_paused_before_it_is_planned_is_planned_paused(work: Work) -> None:
    job_id = work.add_batch()
    change(work, job_id, Change(paused=True, interactive=True))

    _plan(work)

    assert work.claim(work.add_worker()) == []
    change(work, job_id, Change(paused=False))
    (lease,) = work.claim(work.add_worker())
    assert lease.interactive


def test_a_change_while_the_planner_works_reaches_the_shards(work: Work) -> None:
    job_id = work.add_batch()
    planner = work.add_worker(kind=WorkerKind.CONTROL)
    lease = work.claim_plan(planner)
    change(work, job_id, Change(interactive=True))

    work.cut(lease, [1])

    (claimed,) = work.claim(work.add_worker())
    assert claimed.interactive


def test_a_pause_earns_nobody_a_turn(work: Work) -> None:
    paused = work.add_planned_batch([1], tenant_id=work.add_tenant("slow"))
    with work.sessions.begin() as session:
        tenant = session.scalar(text("SELECT tenant_id FROM jobs WHERE id = :id"), {"id": paused})
        control.change(session, tenant_id=tenant, job_id=paused, wanted=Change(paused=True))
    me = work.add_worker()
    for _ in range(3):  # the line moves on meanwhile
        work.add_planned_batch([1])
    work.claim(me, room=250)
    before = work.scalar("SELECT min(stamp) FROM shards WHERE state = 'queued' AND NOT paused")

    with work.sessions.begin() as session:
        control.change(session, tenant_id=tenant, job_id=paused, wanted=Change(paused=False))

    own = work.scalar("SELECT stamp FROM shards WHERE job_id = :id", id=paused)
    assert own == before


def test_a_claim_never_walks_past_paused_shards(work: Work) -> None:
    job_id = work.add_planned_batch([1] * 50)
    change(work, job_id, Change(paused=True))

    values = {"me": work.add_worker(), "model": MODEL, "room": 1, "resident": []}
    with work.sessions() as session:
        session.execute(leases.PIN_PLAN)
        explained = text(f"EXPLAIN (ANALYZE, FORMAT TEXT) {leases.CLAIM.text}")
        plan = "\n".join(session.scalars(explained, values))

    assert "shards_line" in plan
    assert "Rows Removed by Filter" not in plan


def test_an_urgent_batch_overtakes_and_may_be_sent_back(work: Work) -> None:
    first = work.add_planned_batch([1, 1])
    second = work.add_planned_batch([1, 1])

    change(work, second, Change(interactive=True))
    assert jobs_of(work.claim(work.add_worker(), room=100))[:2] == [second, second]
    other = work.add_planned_batch([1])
    change(work, other, Change(interactive=True))
    change(work, other, Change(interactive=False))

    assert jobs_of(work.claim(work.add_worker())) == [first, first, other]


def test_a_deadline_is_moved_and_never_into_the_past(work: Work) -> None:
    job_id = work.add_planned_batch()
    soon = int(time.time()) + 1000

    change(work, job_id, Change(deadline=soon))
    assert work.scalar("SELECT extract(epoch FROM expires_at)::bigint FROM jobs") == soon
    change(work, job_id, Change(window=timedelta(hours=48), completion_window="48h"))

    with pytest.raises(InvalidValue) as refusal:
        change(work, job_id, Change(deadline=1))
    assert refusal.value.param == "deadline"
    assert work.scalar(
        "SELECT expires_at - created_at = '48 hours' AND completion_window = '48h' FROM jobs"
    )


def test_metadata_may_be_changed_and_taken_away_at_any_time(work: Work) -> None:
    job_id = work.add_planned_batch()
    work.stop(job_id, "cancelled")

    change(work, job_id, Change(metadata={"a": "b"}))
    assert work.scalar("SELECT metadata->>'a' FROM jobs") == "b"
    change(work, job_id, Change(metadata={}))

    assert work.scalar("SELECT metadata IS NULL FROM jobs")


@pytest.mark.parametrize(
    "wanted", [Change(paused=True), Change(interactive=True), Change(deadline=2**33)]
)
def test_a_batch_that_is_ending_takes_no_other_change(work: Work, wanted: Change) -> None:
    job_id = work.add_planned_batch()
    work.stop(job_id, "cancelled")

    with pytest.raises(NotAllowedNow, match="stopping"):
        change(work, job_id, wanted)


def test_a_stranger_changes_nothing(work: Work) -> None:
    job_id = work.add_planned_batch()

    with work.sessions.begin() as session, pytest.raises(NotFound):
        control.change(
            session,
            tenant_id=work.add_tenant("other"),
            job_id=job_id,
            wanted=Change(paused=True),
        )


def _plan(work: Work) -> None:
    work.cut(work.claim_plan(work.add_worker(kind=WorkerKind.CONTROL)), [1])
