"""Endpoints are told of what they asked for, rest when they fail, and are given up in the end."""

import threading
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import endpoints, redelivery
from jobs.deliveries import AT_ONCE, BROKEN_AFTER, DISABLE_FAILURES, Outcome
from jobs.endpoints import EndpointChange
from jobs.errors import NotAllowedNow
from jobs.models import WorkerKind
from jobs.redelivery import Range
from tests.fixtures.endpoints import (
    COMPLETED,
    OTHER_URL,
    URL,
    add_endpoint,
    attempt,
    change,
    claim,
    end_a_batch,
    make_due,
    record,
    states,
)
from tests.fixtures.work import Work


@pytest.fixture
def control(work: Work) -> UUID:
    return work.add_worker(kind=WorkerKind.CONTROL)


def reason(work: Work) -> str | None:
    return work.scalar("SELECT disabled_reason FROM webhook_endpoints")  # type: ignore[return-value]


def test_each_endpoint_that_asked_for_an_event_is_told_of_it_beside_the_jobs_own_url(
    work: Work, control: UUID
) -> None:
    told = add_endpoint(work), add_endpoint(work)
    add_endpoint(work, types=("batch.failed", "job.completed"))

    end_a_batch(work, URL)

    leases = [attempt(work, control, 204) for _ in range(3)]
    assert {lease.endpoint_id for lease in leases} == {None, *told}
    assert len({lease.event_id for lease in leases}) == 1
    assert claim(work, control) is None


def test_another_tenants_endpoint_is_told_nothing(work: Work, control: UUID) -> None:
    add_endpoint(work)
    other = work.add_tenant("other")
    with work.sessions.begin() as session:
        session.execute(text("UPDATE webhook_endpoints SET tenant_id = :other"), {"other": other})

    end_a_batch(work)

    assert states(work) == []


def test_an_address_has_two_attempts_at_once_and_others_go_past_it(
    work: Work, control: UUID
) -> None:
    for _ in range(AT_ONCE + 1):
        end_a_batch(work, URL)
    end_a_batch(work, OTHER_URL)

    urls = [lease.url for _ in range(AT_ONCE + 1) if (lease := claim(work, control))]

    assert urls == [URL] * AT_ONCE + [OTHER_URL]
    assert claim(work, control) is None


def test_an_address_that_keeps_failing_rests_and_is_then_tried_one_at_a_time(
    work: Work, control: UUID
) -> None:
    for _ in range(BROKEN_AFTER + 1):
        end_a_batch(work, URL)
    for _ in range(BROKEN_AFTER):
        lease = claim(work, control)
        assert lease is not None
        record(work, lease, Outcome(500, None))
    end_a_batch(work, OTHER_URL)

    past = claim(work, control)
    resting = claim(work, control)
    make_due(work)
    probe, second = claim(work, control), claim(work, control)

    assert past is not None
    assert past.url == OTHER_URL
    assert resting is None
    assert probe is not None
    assert second is None
    record(work, probe, Outcome(204, None))
    make_due(work)
    assert [claim(work, control) is None for _ in range(3)] == [False, False, True]


def test_after_five_days_and_ten_failures_it_is_disabled_and_what_waits_is_given_up(
    work: Work, control: UUID
) -> None:
    add_endpoint(work)
    end_a_batch(work)
    end_a_batch(work)
    for _ in range(DISABLE_FAILURES - 1):
        attempt(work, control, 500)
    assert reason(work) is None
    with work.sessions.begin() as session:
        long_ago = "UPDATE webhook_targets SET failing_since = now() - interval '5 days'"
        session.execute(text(long_ago))

    attempt(work, control, 500)
    end_a_batch(work)

    assert reason(work) == "10 failures and no success in 5 days"
    assert states(work) == [("failed", "the endpoint is disabled")] * 3


def test_many_failures_in_a_short_time_disable_nothing(work: Work, control: UUID) -> None:
    add_endpoint(work)
    end_a_batch(work)
    end_a_batch(work)

    for _ in range(DISABLE_FAILURES + 3):
        attempt(work, control, 500)

    assert reason(work) is None


def test_a_success_in_between_starts_the_count_anew(work: Work, control: UUID) -> None:
    add_endpoint(work)
    end_a_batch(work)
    for _ in range(DISABLE_FAILURES - 1):
        attempt(work, control, 500)

    attempt(work, control, 204)

    assert work.scalar("SELECT count(*) FROM webhook_targets") == 0


def test_410_disables_it_at_once(work: Work, control: UUID) -> None:
    add_endpoint(work)
    end_a_batch(work)
    end_a_batch(work)

    attempt(work, control, 410)

    assert reason(work) == "it answered 410: it is gone"
    assert [state for state, _ in states(work)] == ["failed", "failed"]
    make_due(work)
    assert claim(work, control) is None


def test_410_to_a_jobs_own_url_ends_that_delivery_alone(work: Work, control: UUID) -> None:
    end_a_batch(work, URL)
    end_a_batch(work, URL)

    attempt(work, control, 410)

    assert sorted(state for state, _ in states(work)) == ["failed", "pending"]


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [(timedelta(minutes=10), 600), (timedelta(seconds=1), 5), (timedelta(days=9), 6 * 3600)],
)
def test_a_retry_after_puts_the_next_attempt_off_by_six_hours_at_most(
    work: Work, control: UUID, asked: timedelta, seconds: int
) -> None:
    end_a_batch(work, URL)
    lease = claim(work, control)
    assert lease is not None

    record(work, lease, Outcome(503, None, asked))

    waits = work.scalar("SELECT extract(epoch FROM due_at - now())::float8 FROM deliveries")
    assert isinstance(waits, float)
    assert seconds - 5 < waits <= seconds * 1.05


def test_what_a_disabled_endpoint_missed_is_sent_again_by_time_with_the_same_event(
    work: Work, control: UUID
) -> None:
    endpoint_id = add_endpoint(work)
    end_a_batch(work)
    delivered = attempt(work, control, 204)
    change(work, endpoint_id, EndpointChange(enabled=False))
    end_a_batch(work)
    missed = work.scalar("SELECT event_id FROM deliveries WHERE state = 'failed'")
    wanted = Range(endpoint_id=endpoint_id, since=0, until=2**40, failed_only=True)
    with work.sessions.begin() as session, pytest.raises(NotAllowedNow, match="disabled"):
        redelivery.redeliver_range(session, wanted, tenant_id=work.tenant_id)

    change(work, endpoint_id, EndpointChange(enabled=True))
    with work.sessions.begin() as session:
        assert redelivery.redeliver_range(session, wanted, tenant_id=work.tenant_id) == 1

    again = attempt(work, control, 204)
    assert again.event_id == missed != delivered.event_id
    assert claim(work, control) is None


def test_a_delivery_that_was_given_up_has_a_whole_schedule_again(work: Work, control: UUID) -> None:
    end_a_batch(work, URL)
    while states(work)[0][0] == "pending":
        last = attempt(work, control, 500)
    delivery_id = last.id

    with work.sessions.begin() as session:
        redelivery.redeliver(session, tenant_id=work.tenant_id, delivery_id=delivery_id)
    again = attempt(work, control, 500)

    assert (again.tries, again.attempt) == (1, last.attempt + 1)
    assert again.event_id == last.event_id
    assert states(work)[0][0] == "pending"


def test_a_deleted_endpoint_is_told_nothing_more_and_its_secrets_are_gone(
    work: Work, control: UUID
) -> None:
    endpoint_id = add_endpoint(work)
    end_a_batch(work)

    with work.sessions.begin() as session:
        endpoints.delete(session, tenant_id=work.tenant_id, endpoint_id=endpoint_id)
    end_a_batch(work)

    assert states(work) == [("failed", endpoints.DELETED)]
    assert work.scalar("SELECT length(secret) FROM webhook_endpoints") == 0
    assert claim(work, control) is None


def test_the_old_secret_signs_for_a_day_only_if_that_is_asked_for(
    work: Work, control: UUID
) -> None:
    endpoint_id = add_endpoint(work)
    whose = {"tenant_id": work.tenant_id, "endpoint_id": endpoint_id}
    signed_by_two = []
    for keep_old, later in ((True, "0"), (True, "24 hours"), (False, "0")):
        with work.sessions.begin() as session:
            endpoints.rotate_secret(session, work.secrets, **whose, keep_old=keep_old)
            session.execute(
                text(
                    "UPDATE webhook_endpoints"
                    " SET old_secret_until = old_secret_until - CAST(:later AS interval)"
                ),
                {"later": later},
            )
        end_a_batch(work)
        signed_by_two.append(attempt(work, control, 204).old_secret is not None)

    assert signed_by_two == [True, False, False]


def test_there_are_only_so_many_endpoints(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "MAX_ENDPOINTS", 2)
    first = add_endpoint(work)
    add_endpoint(work)

    with pytest.raises(NotAllowedNow, match="2 endpoints"):
        add_endpoint(work, types=(COMPLETED,))

    with work.sessions.begin() as session:
        endpoints.delete(session, tenant_id=work.tenant_id, endpoint_id=first)
    add_endpoint(work)


def test_one_that_is_being_added_counts_for_another_at_the_same_time(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "MAX_ENDPOINTS", 2)
    start, refused = threading.Barrier(8), list[NotAllowedNow]()

    def add() -> None:
        start.wait()
        try:
            add_endpoint(work)
        except NotAllowedNow as refusal:
            refused.append(refusal)

    racers = [threading.Thread(target=add) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()

    assert len(refused) == 6
    assert work.scalar("SELECT count(*) FROM webhook_endpoints") == 2
