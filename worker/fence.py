"""Lets go of everything when the beat has not been answered in time, whatever the beat waits for.

A thread that does no I/O: the beat's own may be stuck in a socket of a database that has stopped
without a word, and nothing but the monotonic clock of this process has a say here.  Safety does not
hang on it, for every write names its attempt; it ends work that would be thrown away.

It also tells whose silence it was: if a beat was at least begun in time, the database's, else that
of this process, which stood still as a whole.
"""

import threading
import time
from collections.abc import Callable
from datetime import timedelta


class Fence:
    """Calls `fall` once for each deadline that passes; `fall` must not wait for anything."""

    def __init__(self, after: timedelta, fall: Callable[[], None]) -> None:
        """`after`: how long an answered beat is good for, counted from when it was sent."""
        self._after = after.total_seconds()
        self._fall = fall
        self._deadline: float | None = None  # monotonic
        self._good_until = 0.0  # the last deadline, fallen or not
        self._was_tried = False  # since the last answer, and before it was too late
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="fence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def note_try(self, at: float) -> None:
        """A beat is begun at the monotonic time `at`."""
        with self._changed:
            self._was_tried |= at < self._good_until

    def hold(self, sent: float, *, next_try: float = 0.0) -> None:
        """A beat that was sent at the monotonic time `sent` has been answered.  `next_try`: when
        another is to be begun; if that is too late, it is the database that was slow."""
        with self._changed:
            self._deadline = self._good_until = sent + self._after
            self._was_tried = next_try >= self._good_until
            self._changed.notify()

    def was_tried(self) -> bool:
        """Whether a beat was begun after the last one that was answered, and in time."""
        with self._changed:
            return self._was_tried

    def _run(self) -> None:
        while self._wait_for_fall():
            self._fall()

    def _wait_for_fall(self) -> bool:
        """True once a deadline has passed, False if there is to be no more."""
        with self._changed:
            while not self._stopping:
                left = None if self._deadline is None else self._deadline - time.monotonic()
                if left is not None and left <= 0:
                    self._deadline = None
                    return True
                self._changed.wait(left)
            return False
