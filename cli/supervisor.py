"""Keeps the programs of the stack running, and ends every one of them, whatever happens.

It knows nothing of what they are.  Start it from the main thread: its children end with the thread
that started them.
"""

import time
from collections.abc import Callable, Sequence

from cli.interrupts import Interrupts
from cli.process import Process
from cli.program import Program
from cli.restarts import Restarts

_LOOK_SECONDS = 0.1


class _Kept:
    """One program, the process that it is at the moment, and when to start the next."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.process = Process(program)
        self.ready = False
        self.restarts = Restarts()
        self.start_at: float | None = None  # while it is down
        self.last_exit = 0

    def look(self) -> bool:
        """Bring it one step on.  True if it has just been started again."""
        if self.start_at is not None:
            return self._start_when_due(self.start_at)
        if self.process.exit_code is None:
            self.ready = self.ready or self.process.why_not_ready() is None
        else:
            self._plan_restart()
        return False

    def _start_when_due(self, start_at: float) -> bool:
        if time.monotonic() < start_at:
            return False
        self.process, self.ready, self.start_at = Process(self.program), False, None
        return True

    def _plan_restart(self) -> None:
        self.process.kill()  # what it forked may have outlived it
        self.last_exit = self.process.exit_code or 0
        # It may have come up and died between two looks, as a worker does that meets a killer.
        was_ready = self.ready or self.process.why_not_ready() is None
        self.program.bury(self.process.pid)
        delay = self.restarts.next_delay(was_ready=was_ready)
        if delay is None:
            raise self.process.unavailable("ends again and again before it is ready")
        self.start_at = time.monotonic() + delay


class Supervisor:
    """Programs start in tiers; a tier starts once the one before is ready, and stops before it."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._tiers: list[list[_Kept]] = []

    def start(self, programs: Sequence[Program]) -> None:
        """Start a tier and return once all of it is ready.

        Raises ServerUnavailable if one ends instead, and Interrupted.
        """
        tier: list[_Kept] = []
        self._tiers.append(tier)
        for program in programs:
            self._interrupts.check()
            tier.append(_Kept(program))
        for kept in tier:
            kept.process.wait_ready(self._interrupts.check)
            kept.ready = True

    def keep_running(self, restarted: Callable[[str, int], None]) -> None:
        """Start again whatever dies, until interrupted.  `restarted` is told the name and how the
        one before ended: its exit code, or -N for signal N.

        Raises ServerUnavailable when a program cannot be kept up.
        """
        while True:
            self._interrupts.check()
            for kept in self._all():
                if kept.look():
                    restarted(kept.program.name, kept.last_exit)
            time.sleep(_LOOK_SECONDS)

    def pids(self) -> dict[str, int]:
        return {kept.program.name: kept.process.pid for kept in self._all()}

    def stop(self) -> None:
        """End every program, the last tier first.  Bounded: whoever does not leave is killed."""
        for tier in reversed(self._tiers):
            for kept in tier:
                kept.process.ask_to_stop()
            for kept in tier:
                kept.process.wait_stopped(self._interrupts.impatient)
        self._tiers.clear()

    def _all(self) -> list[_Kept]:
        return [kept for tier in self._tiers for kept in tier]
