"""Ctrl-C, SIGTERM and a closed terminal, noted instead of raised.

An exception out of a signal handler could fall between a fork and the line that remembers the
child, and leave it behind.  A flag that is looked at in the right places cannot.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """The user wants an end.  Not a failure."""


class Interrupts:
    """Counts them; the second one means that the user will not wait."""

    def __init__(self) -> None:
        self._received = 0

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Between here and the end of the block the signals do nothing else."""
        before = {number: signal.signal(number, self._note) for number in _watched()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        if self._received:
            raise Interrupted

    def impatient(self) -> bool:
        return self._received > 1

    def ask(self) -> None:
        """As if the user had sent a signal; from any thread."""
        self._received += 1

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.ask()


def _watched() -> tuple[signal.Signals, ...]:
    """Under nohup, a closed terminal is not to end anything."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return _SIGNALS
    return (*_SIGNALS, signal.SIGHUP)
