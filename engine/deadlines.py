"""Which requests have had their time."""

from collections.abc import Callable
from heapq import heappop, heappush


class Deadlines:
    """clock: seconds, from any start, that never go back.

    Costs O(log n) for each request that has a deadline, and nothing for the others.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, str]] = []

    def set(self, seq_id: int, request_id: str, *, seconds: float) -> None:
        heappush(self._heap, (self._clock() + seconds, seq_id, request_id))

    def passed(self) -> list[tuple[int, str]]:
        """Take out what was set and is over, as (seq_id, request_id); some may have ended since."""
        over = []
        now = self._clock() if self._heap else 0.0
        while self._heap and self._heap[0][0] <= now:
            _, seq_id, request_id = heappop(self._heap)
            over.append((seq_id, request_id))
        return over
