"""When a dead program is started again."""

from cli.restarts import Restarts


def test_program_that_works_is_started_at_once_however_often_it_dies() -> None:
    restarts = Restarts()

    delays = [restarts.next_delay(was_ready=True) for _ in range(20)]

    assert delays == [0] * 20


def test_failed_starts_wait_twice_as_long_each_time_and_the_fifth_is_the_last() -> None:
    restarts = Restarts()

    delays = [restarts.next_delay(was_ready=False) for _ in range(5)]

    assert delays == [0, 0.25, 0.5, 1, None]


def test_a_start_that_works_forgets_the_failed_ones_before_it() -> None:
    restarts = Restarts()
    for _ in range(4):
        restarts.next_delay(was_ready=False)

    delays = [restarts.next_delay(was_ready=True), restarts.next_delay(was_ready=False)]

    assert delays == [0, 0]
