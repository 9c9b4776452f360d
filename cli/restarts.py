"""When to start a dead program again, and when to give up on it.  Plain numbers: no clock."""

from dataclasses import dataclass

# Somebody who kills a program that works may do so as often as they like.  One that never even
# becomes ready has a reason, which the next start will not change.
_MAX_FAILED_STARTS = 5
_QUICK_SECONDS = 10.0
_FIRST_DELAY = 0.25
_LONGEST_DELAY = 5.0


@dataclass(slots=True)
class Restarts:
    """The short memory of one program's deaths."""

    failed_starts: int = 0
    quick_deaths: int = 0

    def next_delay(self, *, lived: float, was_ready: bool) -> float | None:
        """Seconds to wait before the next start after a life of `lived` s; None: give up."""
        self.failed_starts = 0 if was_ready else self.failed_starts + 1
        self.quick_deaths = self.quick_deaths + 1 if lived < _QUICK_SECONDS else 0
        if self.failed_starts >= _MAX_FAILED_STARTS:
            return None
        if self.quick_deaths <= 1:
            return 0.0
        delay: float = _FIRST_DELAY * 2 ** (self.quick_deaths - 2)
        return min(delay, _LONGEST_DELAY)
