"""The fair queue: nobody waits behind all of another's work, and nobody for ever."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import control, fairness
from jobs.control import Change
from jobs.job_leases import JobLease
from jobs.models import WorkerKind
from tests.fixtures.passing_time import pass_time
from tests.fixtures.work import Work, segment_of

_DUE = text("UPDATE jobs SET expires_at = created_at + :window WHERE id = :id")
_DOUBLE = text("UPDATE tenants SET weight = 2 WHERE id = :id")


def order_of_claims(work: Work) -> list[UUID]:
    """Which job each shard belongs to, in the order in which one worker takes them."""
    me, order = work.add_worker(), []
    while claimed := work.claim(me, room=1):
        order += [lease.job_id for lease in claimed]
    return order


def due_in(work: Work, window: timedelta, job_id: UUID) -> UUID:
    with work.sessions.begin() as session:
        session.execute(_DUE, {"window": window, "id": job_id})
    return job_id


def test_a_small_job_waits_behind_one_shard_of_a_large_one(work: Work) -> None:
    large = work.add_planned_batch([1] * 50)
    small = work.add_planned_batch([1], tenant_id=work.add_tenant("other"))

    order = order_of_claims(work)

    assert order.index(small) <= 1
    assert order.count(large) == 50


def test_two_tenants_take_turns(work: Work) -> None:
    mine = work.add_planned_batch([1] * 10)
    theirs = work.add_planned_batch([1] * 10, tenant_id=work.add_tenant("other"))

    order = order_of_claims(work)

    assert all({*order[at : at + 2]} == {mine, theirs} for at in range(0, 20, 2))


def test_one_tenants_jobs_go_in_the_order_of_their_cuts(work: Work) -> None:
    jobs = [work.add_planned_batch([1] * 3) for _ in range(3)]

    assert order_of_claims(work) == [job for job in jobs for _ in range(3)]


def test_a_tenant_of_twice_the_weight_gets_twice_the_turns(work: Work) -> None:
    heavy = work.add_tenant("heavy")
    with work.sessions.begin() as session:
        session.execute(_DOUBLE, {"id": heavy})
    light_job = work.add_planned_batch([1] * 30)
    heavy_job = work.add_planned_batch([1] * 30, tenant_id=heavy)

    first = order_of_claims(work)[:30]

    assert 19 <= first.count(heavy_job) <= 21
    assert first.count(light_job) == 30 - first.count(heavy_job)


def test_a_tenant_that_was_away_claims_no_arrears(work: Work) -> None:
    work.add_planned_batch([1] * 20)
    order_of_claims(work)  # the queue's time has moved on while the other was away

    mine = work.add_planned_batch([1] * 10)
    theirs = work.add_planned_batch([1] * 10, tenant_id=work.add_tenant("other"))
    first = order_of_claims(work)[:10]

    assert 4 <= first.count(theirs) <= 6
    assert first.count(mine) == 10 - first.count(theirs)


def test_costly_shards_take_fewer_turns(work: Work) -> None:
    costly = work.add_planned_batch([1] * 10, cost=400)
    cheap = work.add_planned_batch([1] * 10, cost=100, tenant_id=work.add_tenant("other"))

    first = order_of_claims(work)[:10]

    assert first.count(cheap) >= 7
    assert costly in first


@pytest.mark.parametrize("left", ["a quarter", "more"])
def test_a_job_is_pulled_forward_in_the_last_quarter_of_its_window_and_not_before(
    work: Work, left: str
) -> None:
    window = timedelta(hours=4)
    early = due_in(work, 10 * window, work.add_planned_batch([1] * 20))
    late = due_in(work, window, work.add_planned_batch([1] * 5))  # of one tenant, behind it
    pass_time(work.sessions, 0.76 * window if left == "a quarter" else 0.74 * window)

    with work.sessions.begin() as session:
        hastened = fairness.hasten(session)
    order = order_of_claims(work)

    if left == "more":
        assert hastened == 0
        assert order == [early] * 20 + [late] * 5
    else:
        assert hastened == 1
        assert order[:7].count(late) == 5  # beside two of the others, who go on in their turns


def test_who_comes_later_does_not_overtake_who_was_pulled_forward(work: Work) -> None:
    due_in(work, timedelta(hours=40), work.add_planned_batch([1] * 20))
    late = due_in(work, timedelta(hours=4), work.add_planned_batch([1] * 5))
    pass_time(work.sessions, timedelta(hours=3.5))
    with work.sessions.begin() as session:
        fairness.hasten(session)

    work.add_planned_batch([1] * 5, tenant_id=work.add_tenant("other"))
    order = order_of_claims(work)

    assert order[:8].count(late) == 5
    with work.sessions.begin() as session:
        assert fairness.hasten(session) == 0  # once is enough


def test_a_large_job_in_danger_leaves_the_others_their_turns(work: Work) -> None:
    due_in(work, timedelta(hours=40), work.add_planned_batch([1] * 50))
    late = due_in(work, timedelta(hours=4), work.add_planned_batch([1] * 50))
    theirs = work.add_planned_batch([1] * 50, tenant_id=work.add_tenant("other"))
    due_in(work, timedelta(hours=40), theirs)
    pass_time(work.sessions, timedelta(hours=3.5))

    with work.sessions.begin() as session:
        fairness.hasten(session)
    first = order_of_claims(work)[:30]

    assert 19 <= first.count(late) <= 21  # four of six
    assert 4 <= first.count(theirs) <= 6


def test_jobs_in_danger_share_their_tenants_lane(work: Work) -> None:
    due_in(work, timedelta(hours=40), work.add_planned_batch([1] * 50))
    late = [due_in(work, timedelta(hours=4), work.add_planned_batch([1] * 10)) for _ in range(4)]
    theirs = work.add_planned_batch([1] * 50, tenant_id=work.add_tenant("other"))
    due_in(work, timedelta(hours=40), theirs)
    pass_time(work.sessions, timedelta(hours=3.5))

    with work.sessions.begin() as session:
        assert fairness.hasten(session) == 4
    order = order_of_claims(work)

    assert 4 <= order[:30].count(theirs) <= 6
    assert [job_id for job_id in order if job_id in late] == [
        job for job in late for _ in range(10)
    ]


def test_who_used_an_idle_fleet_owes_nothing_for_it(work: Work) -> None:
    work.add_planned_batch([1] * 50)
    order_of_claims(work)

    theirs = work.add_planned_batch([1] * 50, tenant_id=work.add_tenant("other"))
    mine = work.add_planned_batch([1] * 10)
    order = order_of_claims(work)

    assert 9 <= order[:20].count(mine) <= 10
    assert theirs in order[:2]


def put_off(work: Work, job_id: UUID, by: timedelta) -> None:
    """As what cannot be run now is."""
    later = text("UPDATE shards SET not_before = now() + :by WHERE job_id = :id")
    with work.sessions.begin() as session:
        session.execute(later, {"by": by, "id": job_id})


def test_a_shard_that_fails_over_and_over_lets_no_newcomer_pass_who_waits(work: Work) -> None:
    failing = work.add_planned_batch()
    put_off(work, failing, timedelta(hours=1))
    waiting = work.add_planned_batch([1] * 60, tenant_id=work.add_tenant("other"))
    me = work.add_worker()
    for _ in range(30):
        work.claim(me, room=1)

    while_it_waits = work.add_planned_batch([1] * 10, tenant_id=work.add_tenant("newcomer"))
    put_off(work, failing, timedelta())
    while_it_is_due = work.add_planned_batch([1] * 10, tenant_id=work.add_tenant("another"))
    order = [job_id for job_id in order_of_claims(work) if job_id != failing]

    assert [order[:30].count(job_id) for job_id in (waiting, while_it_waits, while_it_is_due)] == [
        10,
        10,
        10,
    ]


@pytest.mark.parametrize("end", ["cancelled", "expired"])
def test_what_was_cut_and_never_ran_is_not_paid_for(work: Work, end: str) -> None:
    theirs = work.add_planned_batch([1] * 50, tenant_id=work.add_tenant("other"))
    work.stop(work.add_planned_batch([1] * 50), end)

    mine = work.add_planned_batch([1] * 10)
    order = order_of_claims(work)

    assert 9 <= order[:20].count(mine) <= 10
    assert order.count(theirs) == 50


def test_moving_its_deadline_pulls_a_job_forward_no_second_time(work: Work) -> None:
    job_id = due_in(work, timedelta(hours=4), work.add_planned_batch())
    pass_time(work.sessions, timedelta(hours=3.5))
    with work.sessions.begin() as session:
        assert fairness.hasten(session) == 1

    for window in (timedelta(hours=48), timedelta(hours=4)):
        with work.sessions.begin() as session:
            wanted = Change(window=window)
            control.change(session, tenant_id=work.tenant_id, job_id=job_id, wanted=wanted)

    with work.sessions.begin() as session:
        assert fairness.hasten(session) == 0


def waiting_batch(work: Work, tenant_id: UUID) -> UUID:
    return work.add_batch(tenant_id=tenant_id)


def settled_batch(work: Work, tenant_id: UUID) -> UUID:
    job_id = work.add_planned_batch(tenant_id=tenant_id)
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [0]), complete=True)
    return job_id


@pytest.mark.parametrize("step", ["plan", "finalize"])
def test_nobody_waits_until_all_of_anothers_files_are_planned_or_written(
    work: Work, step: str
) -> None:
    planning = step == "plan"
    add = waiting_batch if planning else settled_batch
    claim: Callable[[UUID], JobLease] = work.claim_plan if planning else work.begin_finalizing
    many, other = [add(work, work.tenant_id) for _ in range(3)], work.add_tenant("other")
    few = [add(work, other)]

    control = work.add_worker(kind=WorkerKind.CONTROL)
    order = [claim(control).job_id for _ in range(4)]

    assert few[0] in order[:2]
    assert [job_id for job_id in order if job_id in many] == many


def test_planning_goes_by_age(work: Work) -> None:
    jobs = [work.add_batch() for _ in range(3)]
    planner = work.add_worker(kind=WorkerKind.CONTROL)

    assert [work.claim_plan(planner).job_id for _ in range(3)] == jobs
