"""The threads that send webhooks: their own, so that slow endpoints hold up no other work."""

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from worker.failures import log_failure

log = logging.getLogger(__name__)

_THREADS = 8  # four slow addresses at two attempts each hold all of them, for 15 s at most


class Courier:
    """Delivers whatever is due each time that it is called, on several threads at once."""

    def __init__(self, deliver_next: Callable[[], bool]) -> None:
        self._deliver_next = deliver_next
        self._calls = queue.Queue[None](maxsize=_THREADS)  # more would say nothing new
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"courier-{number}", daemon=True)
            for number in range(_THREADS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def call(self) -> bool:
        """Let a thread that idles look.  False: nothing is left for the caller to do."""
        with suppress(queue.Full):
            self._calls.put_nowait(None)
        return False

    def stop(self) -> None:
        """Finish the attempts that are under way."""
        self._stopping = True
        for _ in self._threads:
            self.call()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            self._calls.get()
            if self._stopping:
                return
            self._deliver_all()

    def _deliver_all(self) -> None:
        """Whatever an attempt raises is logged and the next call goes on: the delivery's row says
        when it is due again."""
        try:
            while not self._stopping and self._deliver_next():
                self.call()  # one more idle thread may find another
        except Exception as error:
            log_failure(log, "a delivery failed; the next call goes on", error)
