"""No lease is kept by a living control process that knows nothing of it."""

from uuid import UUID

import pytest

from jobs import deliveries, finishing
from tests.fixtures.work import Work
from tests.fixtures.workers import control_hands
from worker.control.hands import Hands


@pytest.fixture
def hands(work: Work) -> Hands:
    return control_hands(work)


def owner(work: Work, table: str) -> object:
    return work.scalar(f"SELECT owner FROM {table}")


def claim_a_plan(work: Work, me: UUID) -> tuple[UUID, int]:
    work.add_batch()
    lease = work.claim_plan(me)
    return lease.job_id, lease.attempt


def begin_a_finalization(work: Work, me: UUID) -> tuple[UUID, int]:
    work.add_settled_batch()
    lease = work.begin_finalizing(me)
    return lease.job_id, lease.attempt


@pytest.mark.parametrize("lease", [claim_a_plan, begin_a_finalization])
def test_a_job_that_nobody_works_on_is_let_go_at_the_second_look(
    work: Work, hands: Hands, lease
) -> None:
    lease(work, hands.me)

    hands.let_go_strays()
    assert owner(work, "jobs") == hands.me  # it may have been claimed this very moment
    hands.let_go_strays()

    assert owner(work, "jobs") is None


def test_what_is_in_hand_is_kept_however_long_it_takes(work: Work, hands: Hands) -> None:
    job_id, attempt = claim_a_plan(work, hands.me)

    with hands.holding(job_id, attempt):
        for _ in range(5):
            hands.let_go_strays()
        assert owner(work, "jobs") == hands.me


def test_an_older_attempt_in_hand_does_not_hide_a_newer_one(work: Work, hands: Hands) -> None:
    job_id, attempt = claim_a_plan(work, hands.me)

    with hands.holding(job_id, attempt - 1):
        hands.let_go_strays()
        hands.let_go_strays()

    assert owner(work, "jobs") is None


def test_another_process_keeps_what_it_holds(work: Work, hands: Hands) -> None:
    other = work.add_worker()
    claim_a_plan(work, other)

    hands.let_go_strays()
    hands.let_go_strays()

    assert owner(work, "jobs") == other


def test_a_delivery_that_nobody_sends_is_let_go(work: Work, hands: Hands) -> None:
    work.add_settled_batch(webhook_url="https://example.com/hook")
    lease = work.begin_finalizing(work.add_worker())
    with work.sessions.begin() as session:
        finishing.finish(session, lease, output=None, errors=None)
    with work.sessions.begin() as session:
        assert deliveries.claim(session, hands.me) is not None

    hands.let_go_strays()
    hands.let_go_strays()

    assert owner(work, "deliveries") is None
