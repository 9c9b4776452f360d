"""Questions whose answer may never come, asked so that whoever asks gets an answer in time.

A server whose processes are stopped still acknowledges what it is sent, so no timeout of the
connection ends the wait, and a server's own timeouts do not run.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

_PATIENCE = 3.0  # seconds; Prometheus gives a scrape ten, a supervisor's probe often five


class NoAnswer(Exception):
    """Whom we asked is silent."""


class Patient(Generic[Answer]):
    """Asks on a thread, one at a time: who comes while a question is open shares its answer.

    Once a question has been open for too long, everybody is told so at once until it ends.
    """

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._ask = ask
        self._turn = threading.Lock()
        self._open: Future[Answer] = Future()
        self._open.cancel()  # nothing is asked yet
        self._asked_at = 0.0

    def __call__(self) -> Answer:
        """Raises NoAnswer, or what the asking raised."""
        with self._turn:
            if self._open.done():
                self._begin()
            answer, ends_at = self._open, self._asked_at + _PATIENCE
        try:
            return answer.result(timeout=max(0.0, ends_at - time.monotonic()))
        except TimeoutError:
            raise NoAnswer(f"no answer within {_PATIENCE:g} seconds") from None

    def _begin(self) -> None:
        self._open, self._asked_at = Future(), time.monotonic()
        # A daemon: one that hangs does not keep the process from ending.
        threading.Thread(target=self._answer, args=[self._open], name="asks", daemon=True).start()

    def _answer(self, answer: Future[Answer]) -> None:
        try:
            answer.set_result(self._ask())
        except Exception as error:
            answer.set_exception(error)
