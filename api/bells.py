"""Rings for everybody: many who want the same queue rung at one time are served by one bell.

A bell says only that a row may be waiting, so one that is rung after all of their commits says all
there is to say; and nobody's request waits for the broker.
"""

import threading
from collections.abc import Callable


class Bells:
    """Rings from a thread of its own.  Safe to share between threads."""

    def __init__(self, ring: Callable[[str], object]) -> None:
        """`ring` may block, and does not raise."""
        self._ring = ring
        self._wanted = set[str]()
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="bells", daemon=True)
        self._thread.start()

    def ring(self, queue: str) -> None:
        """Have the queue rung as soon as may be, best effort; call it after the commit."""
        with self._changed:
            self._wanted.add(queue)
            self._changed.notify()

    def close(self) -> None:
        """Ring what is still to be rung, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while queues := self._next():
            for queue in queues:
                self._ring(queue)

    def _next(self) -> set[str]:
        """The queues to ring; none once it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._closed)
            queues, self._wanted = self._wanted, set()
            return queues
