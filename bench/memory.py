"""How much memory each role of a running stack takes at most, by looking at /proc over and over."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.stopwatch import TICKS

Roles = Mapping[str, Sequence[int]]
"""The pids of each role; children that have no role of their own count too."""

_LOOK_EVERY = 0.25  # seconds
_MIB = 1024  # KiB, in which /proc counts


def roles_of(pids: Mapping[str, Any]) -> Roles:
    """Of what `up.json` says: a pid, or a list of them, by role."""
    return {role: pid if isinstance(pid, list) else [pid] for role, pid in pids.items()}


class MemoryWatch:
    """Looks from a thread of its own until the `with` ends, and once then."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._peak_kib = dict.fromkeys(roles, 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory watch", daemon=True)

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def peak_mib(self) -> dict[str, int]:
        return {role: round(kib / _MIB) for role, kib in self._peak_kib.items()}

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_EVERY):
            self._look()

    def _look(self) -> None:
        for role, pids in members(self._roles).items():
            self._peak_kib[role] = max(self._peak_kib[role], resident_kib(pids))


def resident_kib(pids: Iterable[int]) -> int:
    """What processes of one kind have resident: what is each one's own, and once what they share.

    Of Postgres's processes every one maps the same buffers; to add them up would count them often.
    """
    memory = [kept for pid in pids if (kept := _memory(pid))]
    own = sum(kept["RssAnon"] for kept in memory)
    return own + sum(
        max((kept[kind] for kept in memory), default=0) for kind in ("RssFile", "RssShmem")
    )


def cpu_seconds(roles: Roles) -> dict[str, float]:
    """CPU time of each role so far, with that of children that have ended."""
    return {role: sum(map(_ticks, pids)) / TICKS for role, pids in members(roles).items()}


def members(roles: Roles) -> dict[str, list[int]]:
    """The processes of each role that run now: every one of the stack is a child of `up`."""
    named = {pid for pids in roles.values() for pid in pids}
    return {role: _family(pids, named) for role, pids in roles.items()}


def _family(pids: Iterable[int], others: set[int]) -> list[int]:
    """These processes, their children, and theirs, but for those that belong elsewhere."""
    found = list(pids)
    for pid in found:  # grows while it is walked
        found += [child for child in _children(pid) if child not in others]
    return found


def _children(pid: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        lists = [(thread / "children").read_text(encoding="ascii") for thread in threads]
    except OSError:  # it has ended
        return []
    return [int(child) for line in lists for child in line.split()]


def _memory(pid: int) -> dict[str, int]:
    """KiB by kind; nothing of a process that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = (line.partition(":") for line in status.splitlines() if line.startswith("Rss"))
    return {kind: int(size.split()[0]) for kind, _, size in lines}


def _ticks(pid: int) -> int:
    """utime, stime, cutime, cstime of /proc/PID/stat, after the name, which may hold spaces."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))
