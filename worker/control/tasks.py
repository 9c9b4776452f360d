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
from worker.failures import log_failure

log = logging.getLogger(__name__)

Step = Callable[[], bool]
"""Claims one piece of work and does it; False if there was none."""


class Desk:
    """Does whatever waits.  Planning and finalizing run one at a time in a process, because each
    holds a window of a file in memory; deliveries go on beside them on threads of their own, so
    that slow endpoints hold none that work needs."""

    def __init__(
        self,
        doorbell: Doorbell,
        *,
        plan: Step,
        finalize: Step,
        wants_care: Step,
        careful: Step,
        deliver: Step,
    ) -> None:
        """`careful` plans or finalizes what processes have died of: beside it nothing else is.
        `wants_care`: whether it would find something."""
        self._doorbell = doorbell
        self._planning, self._finalizing, delivering = (threading.Lock() for _ in range(3))
        self._care = threading.Lock()  # while it is held nothing else is begun
        self._wants_care, self._careful = wants_care, careful
        self._closed = False
        self._steps: list[Step] = [
            _Gated(plan, self._planning, yields_to=self._care),
            _Gated(finalize, self._finalizing, yields_to=self._care),
            self._with_care,
            _Gated(deliver, delivering),
        ]

    def work(self) -> None:
        """Go on until nothing waits, or others of this process are at it."""
        # Not any(): every kind gets its turn in each round.
        while sum([not self._closed and _tried(step) for step in self._steps]):
            self._doorbell.ring(CONTROL)  # a thread that idles may find more

    def close(self) -> None:
        """Begin nothing more."""
        self._closed = True

    def _with_care(self) -> bool:
        """Waits for what is under way, or there would be no such moment as long as others wait."""
        if not self._wants_care() or not self._care.acquire(blocking=False):
            return False
        try:
            with self._planning, self._finalizing:
                return not self._closed and self._careful()  # it may have waited for long
        finally:
            self._care.release()


def _tried(step: Step) -> bool:
    """Do the step.  What it raises is logged, and is no reason to leave the other steps undone."""
    try:
        return step()
    except GivenUp:
        log.exception("a job is left for later")
        return True  # that one waits now, and behind it there may be others
    except Exception as error:
        log_failure(log, "a step failed; the next bell or look does it again", error)
        return False


class _Gated:
    """A step that is done behind a gate, which lets one thread in at a time, and none while another
    lock is held.  To whoever finds it taken there is nothing to do."""

    def __init__(
        self, step: Step, gate: threading.Lock, *, yields_to: "threading.Lock | None" = None
    ) -> None:
        self._step = step
        self._gate = gate
        self._yields_to = yields_to

    def __call__(self) -> bool:
        if self._yields_to is not None and self._yields_to.locked():
            return False
        if not self._gate.acquire(blocking=False):
            return False
        try:
            return self._step()
        finally:
            self._gate.release()


def register(program: Celery, desk: Desk) -> None:
    @program.task(name=CONTROL_TASK, ignore_result=True)
    def work() -> None:
        desk.work()
