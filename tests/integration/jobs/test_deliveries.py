"""Webhook deliveries: leased like shards, tried again on a schedule, never twice at once."""

from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import deliveries, events
from jobs.deliveries import DeliveryLease, Outcome
from jobs.models import WorkerKind
from tests.fixtures.endpoints import URL, end_a_batch, make_due
from tests.fixtures.work import Work


@pytest.fixture
def control(work: Work) -> UUID:
    """A control process, with one webhook to be sent."""
    end_a_batch(work, URL)
    return work.add_worker(kind=WorkerKind.CONTROL)


def claim(work: Work, me: UUID) -> DeliveryLease | None:
    with work.sessions.begin() as session:
        return deliveries.claim(session, me)


def record(work: Work, lease: DeliveryLease, status: int | None) -> None:
    with work.sessions.begin() as session:
        deliveries.record(session, lease, Outcome(status, None))


def test_a_delivery_is_claimed_by_one_at_a_time(work: Work, control: UUID) -> None:
    first = claim(work, control)

    assert first is not None
    assert claim(work, control) is None


def test_a_tenants_many_hosts_are_few_targets_so_that_a_claim_stays_quick(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_HOSTS", 2)

    for host in ("a", "b", "c", "a", "d"):
        end_a_batch(work, f"https://{host}.example/hook")

    with work.sessions() as session:
        targets = session.scalars(text("SELECT target FROM deliveries ORDER BY created_at")).all()
    others = events.OTHER_HOSTS
    assert targets == [
        "https://a.example",
        "https://b.example",
        others,
        "https://a.example",
        others,
    ]


def test_a_2xx_ends_it(work: Work, control: UUID) -> None:
    lease = claim(work, control)
    assert lease is not None

    record(work, lease, 204)

    assert work.scalar("SELECT state FROM deliveries") == "delivered"
    make_due(work)
    assert claim(work, control) is None


@pytest.mark.parametrize("status", [None, 301, 404, 500])
def test_anything_else_is_tried_again_later(work: Work, control: UUID, status: int | None) -> None:
    lease = claim(work, control)
    assert lease is not None

    record(work, lease, status)

    assert claim(work, control) is None
    make_due(work)
    again = claim(work, control)
    assert again is not None
    assert (again.attempt, again.payload) == (2, lease.payload)


def test_after_the_whole_schedule_it_has_failed(work: Work, control: UUID) -> None:
    attempts = 0
    while (lease := claim(work, control)) is not None:
        record(work, lease, 500)
        make_due(work)
        attempts += 1

    assert attempts == len(deliveries.SCHEDULE) + 1
    assert work.scalar("SELECT state FROM deliveries") == "failed"


def test_a_late_outcome_changes_nothing(work: Work, control: UUID) -> None:
    lease = claim(work, control)
    assert lease is not None
    with work.sessions.begin() as session:
        session.execute(text("UPDATE deliveries SET owner = NULL"))
    second = claim(work, control)

    record(work, lease, 200)

    assert second is not None
    assert work.scalar("SELECT state FROM deliveries") == "pending"


def test_the_schedule_lasts_as_the_standard_says() -> None:
    assert sum(wait.total_seconds() for wait in deliveries.SCHEDULE) / 3600 == pytest.approx(
        75.6, abs=0.1
    )
