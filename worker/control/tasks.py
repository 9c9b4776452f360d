"""What a bell on the control queue makes happen: plan, finalize or deliver what there is.

Each of the three is claimed from Postgres, so a bell may be lost, late or doubled without harm, and
a timer does the same work when no bell comes at all.
"""

import logging
import threading
from collections.abc import Callable

from celery import Celery

from jobs.doorbell import CONTROL, CONTROL_TASK, Doorbell
from worker.control.leased_jobs import GivenUp

log = logging.getLogger(__name__)

Step = Callable[[], bool]
"""Claims one piece of work and does it; False if there was none."""


class Desk:
    """Does whatever waits.  Planning and finalizing run one at a time in a process, because each
    holds a window of a file in memory; deliveries go on beside them on threads of their own, so
    that slow endpoints hold none that work needs."""

    def __init__(self, doorbell: Doorbell, *, plan: Step, finalize: Step, deliver: Step) -> None:
        self._doorbell = doorbell
        self._steps = [_AtMost(1, plan), _AtMost(1, finalize), _AtMost(1, deliver)]

    def work(self) -> None:
        """Go on until nothing waits, or others of this process are at it."""
        # Not any(): every kind gets its turn in each round.
        while sum([_tried(step) for step in self._steps]):
            self._doorbell.ring(CONTROL)  # a thread that idles may find more


def _tried(step: Step) -> bool:
    """Do the step.  What it raises is logged, and is no reason to leave the other steps undone."""
    try:
        return step()
    except GivenUp:
        log.exception("a job is left for later")
        return True  # that one waits now, and behind it there may be others
    except Exception:
        log.exception("a step failed; the next bell or look does it again")
        return False


class _AtMost:
    """A step that so many threads may do at once; to one more there is nothing to do."""

    def __init__(self, threads: int, step: Step) -> None:
        self._free = threading.Semaphore(threads)
        self._step = step

    def __call__(self) -> bool:
        if not self._free.acquire(blocking=False):
            return False
        try:
            return self._step()
        finally:
            self._free.release()


def register(program: Celery, desk: Desk) -> None:
    @program.task(name=CONTROL_TASK, ignore_result=True)
    def work() -> None:
        desk.work()
