"""How the page says numbers, times and states."""

from jobs.models import JobState
from jobs.overview.views import BatchView, WorkerView

UNKNOWN = "\N{EM DASH}"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

_STATES = {JobState.IN_PROGRESS: "running"}


def count(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:,.0f}"


def figure(number: float) -> str:
    """A number for a gauge, where a million digits would not fit."""
    for size, unit in ((1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.2f} {unit}"
    return count(number)


def rate(per_second: float | None) -> str:
    if per_second is None:
        return UNKNOWN
    return f"{per_second:.1f}" if 0 < per_second < 10 else count(per_second)


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.0f} %"


def duration(seconds: float | None) -> str:
    """The two largest units: 4 s, 3 m 12 s, 2 h 05 m, 3 d 04 h."""
    if seconds is None:
        return UNKNOWN
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} m {whole % _MINUTE:02} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} m"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR:02} h"


def batch_state(batch: BatchView) -> str:
    return "paused" if batch.paused else _STATES.get(batch.state, batch.state.value)


def worker_state(worker: WorkerView) -> str:
    if not worker.alive:
        return "lost"
    return "draining" if worker.draining else "alive"
