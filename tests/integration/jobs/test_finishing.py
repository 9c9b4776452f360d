"""Law 7 and its like: a job ends once, by one winner, with one event."""

from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest
from sqlalchemy import text

from jobs import finishing, job_leases, results
from jobs.errors import LeaseLost, NotAllowedNow, NotFound
from jobs.models import JobKind, JobState, WorkerKind
from tests.fixtures.work import NO_TIME, Work, segment_of


def test_a_cancel_stops_queued_shards_and_leaves_leased_ones_to_their_worker(work: Work) -> None:
    job_id = work.add_planned_batch([1, 1])
    work.claim(work.add_worker(), room=1)

    work.cancel(job_id)

    assert work.job_state(job_id) == "stopping"
    assert work.shard_states(job_id) == ["leased", "cancelled"]


def test_a_second_cancel_changes_nothing(work: Work) -> None:
    job_id = work.add_planned_batch([1])
    work.cancel(job_id)
    at = work.scalar("SELECT cancelling_at FROM jobs WHERE id = :job_id", job_id=job_id)

    work.cancel(job_id)

    again = work.scalar("SELECT cancelling_at FROM jobs WHERE id = :job_id", job_id=job_id)
    assert again == at


def test_a_second_cancel_changes_nothing_while_the_cancelled_job_is_finalized(work: Work) -> None:
    job_id = work.add_planned_batch([1])
    work.cancel(job_id)
    lease = work.begin_finalizing(work.add_worker())

    work.cancel(job_id)  # its owner sees "cancelling", as after the first

    with work.sessions.begin() as session:
        finishing.finish(session, lease, output=None, errors=None)
    assert work.job_state(job_id) == "cancelled"


def test_what_runs_out_of_time_cannot_be_cancelled_any_more(work: Work) -> None:
    job_id = work.add_planned_batch([1])
    work.stop(job_id, "expired")

    with pytest.raises(NotAllowedNow):  # its owner sees "finalizing"
        work.cancel(job_id)

    assert work.scalar("SELECT ends_as FROM jobs") == "expired"


def test_what_is_finalizing_or_ended_cannot_be_cancelled(work: Work) -> None:
    job_id = work.add_settled_batch()
    lease = work.begin_finalizing(work.add_worker())
    with pytest.raises(NotAllowedNow):
        work.cancel(job_id)

    with work.sessions.begin() as session:
        finishing.finish(session, lease, output=None, errors=None)

    with pytest.raises(NotAllowedNow, match="completed"):
        work.cancel(job_id)


def test_nobody_cancels_another_tenants_job(work: Work) -> None:
    job_id = work.add_planned_batch()
    other = work.add_tenant("other")

    with pytest.raises(NotFound), work.sessions.begin() as session:
        finishing.cancel(session, tenant_id=other, job_id=job_id, kind=JobKind.BATCH)

    assert work.job_state(job_id) == "in_progress"


def test_a_handed_back_shard_of_a_stopping_job_is_cancelled(work: Work) -> None:
    job_id = work.add_planned_batch()
    me = work.add_worker()
    (lease,) = work.claim(me)
    work.cancel(job_id)

    work.hand_back(lease)

    assert work.shard_states(job_id) == ["cancelled"]


def test_a_window_that_has_passed_stops_the_job_and_no_other(work: Work) -> None:
    late = work.add_batch(expires_in=NO_TIME)
    early = work.add_batch()

    with work.sessions.begin() as session:
        assert finishing.expire_due(session) == [late]

    assert (work.job_state(late), work.job_state(early)) == ("stopping", "queued")
    assert work.begin_finalizing(work.add_worker()).ends_as is JobState.EXPIRED


def test_finalizing_begins_when_no_shard_is_open_and_not_before(work: Work) -> None:
    job_id = work.add_planned_batch([1, 1])
    me = work.add_worker()
    first, second = work.claim(me)
    work.flush(first, segment_of(job_id, [0]), complete=True)

    with work.sessions.begin() as session:
        assert finishing.begin(session, me) is None
    work.flush(second, segment_of(job_id, [1]), complete=True)

    assert work.begin_finalizing(me).job_id == job_id


def test_of_many_finalizers_one_wins(work: Work) -> None:
    work.add_settled_batch()
    finalizers = [work.add_worker(kind=WorkerKind.CONTROL) for _ in range(8)]

    def begin(me):
        with work.sessions.begin() as session:
            return finishing.begin(session, me)

    with ThreadPoolExecutor(8) as pool:
        leases = [lease for lease in pool.map(begin, finalizers) if lease is not None]

    assert len(leases) == 1


@pytest.mark.law("I1")
@pytest.mark.law("I6")
def test_a_job_ends_once_with_one_event_and_one_delivery(work: Work) -> None:
    job_id = work.add_settled_batch(3, webhook_url="https://example.com/hook")
    lease = work.begin_finalizing(work.add_worker())

    with work.sessions.begin() as session:
        finishing.finish(session, lease, output=None, errors=None)
    with pytest.raises(LeaseLost), work.sessions.begin() as session:
        finishing.finish(session, lease, output=None, errors=None)

    payload = orjson.loads(str(work.scalar("SELECT payload FROM events")))
    assert payload["type"] == "batch.completed"
    assert payload["data"] == {"id": f"batch_{job_id.hex}"}
    assert work.scalar("SELECT count(*) FROM deliveries") == 1
    frozen = "SELECT ROW(completed, failed, input_tokens, cached_tokens, output_tokens)::text"
    assert work.scalar(f"{frozen} FROM jobs WHERE id = :id", id=job_id) == "(3,0,9,6,3)"


def test_a_late_finalizer_does_not_end_the_job(work: Work) -> None:
    job_id = work.add_settled_batch()
    late = work.begin_finalizing(work.add_worker())
    with work.sessions.begin() as session:
        job_leases.release(session, late)
        session.execute(text("UPDATE jobs SET not_before = now()"))
    work.begin_finalizing(work.add_worker())

    with pytest.raises(LeaseLost), work.sessions.begin() as session:
        finishing.finish(session, late, output=None, errors=None)

    assert work.job_state(job_id) == "finalizing"


def test_a_released_job_waits_before_it_is_tried_again(work: Work) -> None:
    work.add_settled_batch()
    me = work.add_worker()
    lease = work.begin_finalizing(me)
    with work.sessions.begin() as session:
        job_leases.release(session, lease)

    with work.sessions.begin() as session:
        assert finishing.begin(session, me) is None


@pytest.mark.parametrize(("ok", "state"), [(True, "completed"), (False, "failed")])
def test_a_single_request_ends_in_its_flush(work: Work, ok: bool, state: str) -> None:
    job_id = work.add_request(webhook_url="https://example.com/hook")
    (lease,) = work.claim(work.add_worker())

    with work.sessions.begin() as session:
        results.flush_request(session, lease, segment_of(job_id, [0], ok=ok))

    assert work.job_state(job_id) == state
    assert work.shard_states(job_id) == ["done"]
    assert work.scalar("SELECT type FROM events") == f"job.{state}"
    assert work.scalar("SELECT count(*) FROM deliveries") == 1


def test_a_cancelled_request_takes_no_result(work: Work) -> None:
    job_id = work.add_request()
    (lease,) = work.claim(work.add_worker())
    work.cancel_request(job_id)

    with pytest.raises(LeaseLost), work.sessions.begin() as session:
        results.flush_request(session, lease, segment_of(job_id, [0]))

    assert work.scalar("SELECT count(*) FROM results") == 0


def test_a_batch_cancelled_before_it_was_planned_can_be_ended(work: Work) -> None:
    job_id = work.add_batch()
    planner = work.add_worker(kind=WorkerKind.CONTROL)
    plan = work.claim_plan(planner)
    work.cancel(job_id)

    with pytest.raises(LeaseLost), work.sessions.begin() as session:
        job_leases.hold(session, plan, JobState.VALIDATING)
    lease = work.begin_finalizing(planner)

    assert (lease.planned, lease.ends_as) == (False, JobState.CANCELLED)


@pytest.mark.law("I5")
def test_the_two_counts_of_a_job_agree(work: Work) -> None:
    job_id = work.add_planned_batch([5])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [0, 1, 2]))
    work.flush(lease, segment_of(job_id, [3], ok=False))

    with work.sessions() as session:
        tally = finishing.tally(session, job_id)

    assert (tally.completed, tally.failed, tally.agrees) == (3, 1, True)
