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


def test_it_guards_again_after_it_has_fallen(fence: Fence, fallen: Fallen) -> None:
    fence.hold(time.monotonic() - AGES)
    assert fallen.at_least_once.wait(AGES)
    fallen.at_least_once.clear()

    fence.hold(time.monotonic() - AGES)

    assert fallen.at_least_once.wait(AGES)
