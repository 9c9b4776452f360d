"""What a bell on the control queue makes happen: plan, finalize or deliver what there is.

Each of the three is claimed from Postgres, so a bell may be lost, late or doubled without harm, and
a timer does the same work when no bell comes at all.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from celery import Celery

from jobs.doorbell import CONTROL, CONTROL_TASK, Doorbell

log = logging.getLogger(__name__)

Step = Callable[[], bool]
"""Claims one piece of work and does it; False if there was none."""


class Desk:
    """Does whatever waits.  Planning and finalizing run one at a time in a process, because each
    holds a window of a file in memory; deliveries go on beside them."""

    def __init__(self, doorbell: Doorbell, *, plan: Step, finalize: Step, deliver: Step) -> None:
        self._doorbell = doorbell
        self._steps: list[Step] = [_OneAtATime(plan), _OneAtATime(finalize), deliver]

    def work(self) -> None:
        """Go on until nothing waits, or others of this process are at it."""
        # Not any(): every kind gets its turn in each round.
        while sum([step() for step in self._steps]):
            self._doorbell.ring(CONTROL)  # a thread that idles may find more


class _OneAtATime:
    def __init__(self, step: Step) -> None:
        self._step = step
        self._busy = threading.Lock()

    def __call__(self) -> bool:
        with _if_free(self._busy) as free:
            return free and self._step()


@contextmanager
def _if_free(lock: threading.Lock) -> Iterator[bool]:
    free = lock.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            lock.release()


def register(program: Celery, desk: Desk) -> None:
    @program.task(name=CONTROL_TASK, ignore_result=True)
    def work() -> None:
        desk.work()
