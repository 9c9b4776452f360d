"""When to start a dead program again, and when to give up on it.  Plain numbers: no clock."""

from dataclasses import dataclass

# One that never even becomes ready has a reason, which the next start will not change.
_MAX_FAILED_STARTS = 5
_FIRST_DELAY = 0.25
_LONGEST_DELAY = 5.0


@dataclass(slots=True)
class Restarts:
    """The short memory of one program's deaths."""

    failed_starts: int = 0

    def next_delay(self, *, was_ready: bool) -> float | None:
        """Seconds to wait before the next start; None: give up.

        One that works is started at once, as often as it dies: a request that kills its worker is
        found by its deaths, and its neighbours wait for every one of them.
        """
        self.failed_starts = 0 if was_ready else self.failed_starts + 1
        if self.failed_starts >= _MAX_FAILED_STARTS:
            return None
        if self.failed_starts <= 1:
            return 0.0
        delay: float = _FIRST_DELAY * 2 ** (self.failed_starts - 2)
        return min(delay, _LONGEST_DELAY)
