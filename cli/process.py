"""One running program: its process, its log, its end.

The child is the leader of its own process group, so that Ctrl-C in the terminal reaches only the
supervisor, and so that whatever it forks can be ended with it.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from cli import logs
from cli.errors import MissingPart, ServerUnavailable
from cli.program import NotReady, Program

_POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1


class Process:
    """Started by the constructor.

    On Linux the child also ends when the *thread* that started it ends: start it from the main one.
    """

    def __init__(self, program: Program) -> None:
        program.prepare()
        self.program = program
        self.started = time.monotonic()
        self._popen = _spawn(program)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; -N if signal N ended it."""
        return self._popen.poll()

    def wait_ready(self, check: Callable[[], None] = lambda: None) -> None:
        """Return once the probe succeeds.

        Raises ServerUnavailable if the program ends or its time is up, and whatever `check`, which
        is called over and over, raises.
        """
        deadline = self.started + self.program.ready_seconds
        while (reason := self.why_not_ready()) is not None:
            self._raise_if_ended()
            if time.monotonic() > deadline:
                raise self.unavailable(f"did not become ready: {reason}")
            check()
            time.sleep(_POLL_SECONDS)

    def why_not_ready(self) -> str | None:
        try:
            self.program.probe(self.pid)
        except NotReady as error:
            return str(error)
        return None

    def ask_to_stop(self) -> None:
        self._popen.send_signal(self.program.stop_signal)

    def wait_stopped(self, impatient: Callable[[], bool] = lambda: False) -> None:
        """Give it its time to end after `ask_to_stop`, then leave nothing of its group behind."""
        deadline = time.monotonic() + self.program.stop_seconds
        while self.exit_code is None and time.monotonic() < deadline and not impatient():
            time.sleep(_POLL_SECONDS)
        self.kill()
        self.program.tidy()

    def stop(self) -> None:
        self.ask_to_stop()
        self.wait_stopped()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()

    def _raise_if_ended(self) -> None:
        if self.exit_code is not None:
            raise self.unavailable(f"ended with code {self.exit_code}")

    def unavailable(self, what: str) -> ServerUnavailable:
        return ServerUnavailable(
            f"{self.program.name} {what}", log_tail=logs.tail(self.program.log)
        )


def _spawn(program: Program) -> subprocess.Popen[bytes]:
    program.log.parent.mkdir(parents=True, exist_ok=True)
    with program.log.open("ab") as log:
        try:
            return subprocess.Popen(
                program.argv,
                env=dict(program.env),
                cwd=program.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent(program.orphan_signal),
                user=program.user,
                group=program.user,
                extra_groups=None if program.user is None else [],
            )
        except (FileNotFoundError, PermissionError) as error:
            raise MissingPart(f"{program.name} cannot be started: {error}") from error


def _end_with_parent(orphan_signal: signal.Signals) -> Callable[[], None] | None:
    # Looked up before the fork: the child of a threaded process must not import or take locks.
    if sys.platform != "linux":
        return None
    return partial(_die_with, os.getpid(), int(orphan_signal), ctypes.CDLL(None).prctl)


def _die_with(parent: int, orphan_signal: int, prctl: Callable[[int, int], int]) -> None:
    prctl(_PR_SET_PDEATHSIG, orphan_signal)
    if os.getppid() != parent:  # it died between the fork and the line above
        os._exit(1)
