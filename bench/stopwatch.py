"""Wall time, and how much of the machine others used meanwhile.

A figure from a machine that somebody else was busy on says little about us, so every result carries
`others_cpu_s` beside its seconds.
"""

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

# Fields of the first line of /proc/stat: user, nice, system, irq, softirq.
_BUSY = (1, 2, 3, 6, 7)
TICKS = os.sysconf("SC_CLK_TCK")
_GIB = 2**30


@dataclass(slots=True)
class Stopwatch:
    """Of a `with` block: its wall seconds, our CPU seconds, and those of all other processes.

    ours: CPU seconds that what is measured has used so far; this process's, if not given
    """

    ours: Callable[[], float] = time.process_time
    wall_s: float = 0.0
    cpu_s: float = 0.0
    others_cpu_s: float = 0.0

    def __enter__(self) -> Self:
        self.others_cpu_s = -_busy()
        self.cpu_s = -self.ours()
        self.wall_s = -time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wall_s += time.perf_counter()
        self.cpu_s += self.ours()
        self.others_cpu_s += _busy() - self.cpu_s


def peak_rss_gib() -> float:
    """The most memory that this process has had resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _GIB


def _busy() -> float:
    """CPU seconds of the whole machine."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return sum(int(fields[place]) for place in _BUSY) / TICKS
