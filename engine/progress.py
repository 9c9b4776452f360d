"""Shows how far a run is: on a terminal one line that changes, elsewhere a line now and then."""

from time import monotonic
from typing import TextIO

from engine.requests import Completion

ON_TERMINAL = 0.2  # seconds between two updates
ELSEWHERE = 10.0


class Progress:
    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = total
        self._stream = stream
        self._interval = ON_TERMINAL if stream.isatty() else ELSEWHERE
        self._end = "\r" if stream.isatty() else "\n"
        self._started = self._shown = monotonic()
        self._done = self._tokens = 0

    def update(self, completion: Completion) -> None:
        self._done += 1
        self._tokens += len(completion.token_ids)
        if monotonic() - self._shown >= self._interval:
            self._show(self._end)

    def finish(self) -> None:
        self._show("\n")

    def _show(self, end: str) -> None:
        self._shown = monotonic()
        rate = self._tokens / max(self._shown - self._started, 1e-9)
        self._stream.write(f"{self._done}/{self._total} requests, {rate:.1f} tokens/s{end}")
        self._stream.flush()
