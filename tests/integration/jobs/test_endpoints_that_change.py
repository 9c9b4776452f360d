"""What is under way or waits when its endpoint moves, is disabled, or is deleted."""

import threading
from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import endpoints, events, redelivery, rescue
from jobs.deliveries import Outcome
from jobs.endpoints import EndpointChange
from jobs.models import WorkerKind
from tests.fixtures.endpoints import (
    COMPLETED,
    OTHER_URL,
    URL,
    add_endpoint,
    attempt,
    change,
    claim,
    end,
    end_a_batch,
    record,
    states,
)
from tests.fixtures.until import until
from tests.fixtures.work import Work


@pytest.fixture
def control(work: Work) -> UUID:
    return work.add_worker(kind=WorkerKind.CONTROL)


def test_what_is_under_way_as_its_endpoint_is_disabled_is_not_tried_again(
    work: Work, control: UUID
) -> None:
    endpoint_id = add_endpoint(work)
    end_a_batch(work)
    lease = claim(work, control)
    assert lease is not None

    change(work, endpoint_id, EndpointChange(enabled=False))
    record(work, lease, Outcome(500, "no"))

    assert states(work) == [("failed", "the endpoint is disabled")]


@pytest.mark.parametrize("ends", ["disabled", "deleted"])
def test_what_a_dead_process_was_sending_is_given_up_with_its_endpoint(
    work: Work, control: UUID, ends: str
) -> None:
    endpoint_id = add_endpoint(work)
    end_a_batch(work, URL)
    sent = {lease.endpoint_id for _ in range(2) if (lease := claim(work, control))}
    end(work, endpoint_id, ends)
    work.kill(control)

    with work.sessions.begin() as session:
        released = rescue.release_deliveries(session)

    assert sent == {None, endpoint_id}
    assert released == 2
    given_up = work.scalar("SELECT last_error FROM deliveries WHERE state = 'failed'")
    assert given_up == f"the endpoint {'is disabled' if ends == 'disabled' else 'was deleted'}"
    other = work.add_worker(kind=WorkerKind.CONTROL)
    assert attempt(work, other, 204).endpoint_id is None
    assert claim(work, other) is None


@pytest.mark.parametrize("ends", ["disabled", "deleted"])
def test_nothing_is_claimed_for_an_endpoint_that_wants_nothing_more(
    work: Work, control: UUID, ends: str
) -> None:
    endpoint_id = add_endpoint(work)
    end_a_batch(work)
    end(work, endpoint_id, ends)
    with work.sessions.begin() as session:
        session.execute(text("UPDATE deliveries SET state = 'pending', due_at = now()"))

    assert claim(work, control) is None


def test_a_disabled_endpoint_may_be_tried_with_a_sample(work: Work, control: UUID) -> None:
    endpoint_id = add_endpoint(work)
    end(work, endpoint_id, "disabled")
    with work.sessions.begin() as session:
        events.add_sample(session, endpoint_id=endpoint_id, event_type=COMPLETED)

    lease = claim(work, control)

    assert lease is not None
    assert lease.test


def test_what_waits_follows_its_endpoint_to_a_new_address(work: Work, control: UUID) -> None:
    endpoint_id = add_endpoint(work)
    end_a_batch(work)

    change(work, endpoint_id, EndpointChange(url=OTHER_URL))

    assert attempt(work, control, 204).url == OTHER_URL


def test_what_failed_before_its_endpoint_moved_is_sent_again_to_the_new_address(
    work: Work, control: UUID
) -> None:
    endpoint_id = add_endpoint(work)
    end_a_batch(work)
    while states(work)[0][0] == "pending":
        last = attempt(work, control, 500)
    change(work, endpoint_id, EndpointChange(url=OTHER_URL))

    with work.sessions.begin() as session:
        redelivery.redeliver(session, tenant_id=work.tenant_id, delivery_id=last.id)

    assert attempt(work, control, 204).url == OTHER_URL
    assert work.scalar("SELECT url FROM deliveries") == OTHER_URL


@pytest.mark.parametrize("status", [410, 500])
def test_what_the_old_address_answers_says_nothing_of_the_new_one(
    work: Work, control: UUID, status: int
) -> None:
    endpoint_id = add_endpoint(work)
    end_a_batch(work)
    lease = claim(work, control)
    assert lease is not None
    change(work, endpoint_id, EndpointChange(url=OTHER_URL))

    record(work, lease, Outcome(status, None))

    assert work.scalar("SELECT disabled_reason FROM webhook_endpoints") is None
    assert work.scalar("SELECT count(*) FROM webhook_targets") == 0
    assert attempt(work, control, 204).url == OTHER_URL


@pytest.mark.parametrize("ends", ["disabled", "deleted"])
def test_nothing_waits_for_an_endpoint_that_ends_while_a_job_does(work: Work, ends: str) -> None:
    endpoint_id = add_endpoint(work)
    ending = threading.Thread(target=end_a_batch, args=[work])

    with work.sessions.begin() as session:
        if ends == "disabled":
            endpoints.disable(session, endpoint_id, why="it answered 410")
        else:
            endpoints.delete(session, tenant_id=work.tenant_id, endpoint_id=endpoint_id)
        ending.start()
        waits = until(work.waits_for_lock)
    ending.join()

    assert waits
    assert [state for state, _ in states(work)] == ["failed"] * (ends == "disabled")
