"""The fence falls once for each deadline that passes, and is held off by answers."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from worker.fence import Fence

AGES = 10.0  # seconds


class Fallen:
    def __init__(self) -> None:
        self.times = 0
        self.at_least_once = threading.Event()

    def __call__(self) -> None:
        self.times += 1
        self.at_least_once.set()


@pytest.fixture
def fallen() -> Fallen:
    return Fallen()


@pytest.fixture
def fence(fallen: Fallen) -> Iterator[Fence]:
    fence = Fence(timedelta(seconds=AGES), fallen)
    fence.start()
    yield fence
    fence.stop()


def test_it_falls_when_the_last_answer_is_too_old(fence: Fence, fallen: Fallen) -> None:
    fence.hold(time.monotonic() - AGES)

    assert fallen.at_least_once.wait(AGES)
    fence.stop()
    assert fallen.times == 1


def test_an_answer_in_time_holds_it_off(fence: Fence, fallen: Fallen) -> None:
    fence.hold(time.monotonic() - AGES + 60)
    fence.hold(time.monotonic())

    fence.stop()
    assert fallen.times == 0


@pytest.mark.parametrize(
    ("begun", "tried"), [(None, False), (AGES - 1, True), (AGES, False), (AGES + 1, False)]
)
def test_only_a_beat_that_is_begun_in_time_says_that_the_process_went_on(
    fence: Fence, begun: float | None, tried: bool
) -> None:
    sent = time.monotonic()
    fence.hold(sent)

    if begun is not None:
        fence.note_try(sent + begun)

    assert fence.was_tried() == tried


@pytest.mark.parametrize(("next_try", "tried"), [(AGES - 1, False), (AGES + 1, True)])
def test_an_answer_so_late_that_no_beat_can_follow_in_time_is_the_databases_silence(
    fence: Fence, next_try: float, tried: bool
) -> None:
    sent = time.monotonic()

    fence.hold(sent, next_try=sent + next_try)

    assert fence.was_tried() == tried


def test_it_guards_again_after_it_has_fallen(fence: Fence, fallen: Fallen) -> None:
    fence.hold(time.monotonic() - AGES)
    assert fallen.at_least_once.wait(AGES)
    fallen.at_least_once.clear()

    fence.hold(time.monotonic() - AGES)

    assert fallen.at_least_once.wait(AGES)
