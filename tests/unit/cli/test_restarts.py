"""When a dead program is started again."""

import pytest

from cli.restarts import Restarts


def test_first_death_is_answered_at_once() -> None:
    restarts = Restarts()

    delay = restarts.next_delay(lived=3600, was_ready=True)

    assert delay == 0


def test_quick_deaths_wait_twice_as_long_each_time_up_to_a_bound() -> None:
    restarts = Restarts()

    delays = [restarts.next_delay(lived=1, was_ready=True) for _ in range(8)]

    assert delays == [0, 0.25, 0.5, 1, 2, 4, 5, 5]


def test_long_life_forgets_the_quick_deaths_before_it() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.next_delay(lived=1, was_ready=True)

    delay = restarts.next_delay(lived=60, was_ready=True)

    assert delay == 0


def test_program_that_never_becomes_ready_is_given_up_at_the_fifth_start() -> None:
    restarts = Restarts()

    delays = [restarts.next_delay(lived=0.1, was_ready=False) for _ in range(5)]

    assert None not in delays[:4]
    assert delays[4] is None


@pytest.mark.parametrize("kills", [20])
def test_program_that_works_may_be_killed_as_often_as_one_likes(kills: int) -> None:
    restarts = Restarts()

    delays = [restarts.next_delay(lived=2, was_ready=True) for _ in range(kills)]

    assert None not in delays
