"""How much of the machine this process may use, where a container (a cgroup, of either version)
limits it: what it is not given it does not see missing, but is stopped or killed for."""

import os
from collections.abc import Iterator
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def usable_cpus(*, mount: Path = _MOUNT, membership: Path = _MEMBERSHIP) -> int:
    """CPUs that it may run on, but no more than its share of their time keeps busy.

    A part of a CPU does not count: threads that compute together wait for the one that is stopped.
    """
    quotas = (_cpu_quota(folder) for folder in _folders("cpu", mount, membership))
    limits = [int(quota) for quota in quotas if quota is not None]
    return max(1, min([len(os.sched_getaffinity(0)), *limits]))


def memory_left(*, mount: Path = _MOUNT, membership: Path = _MEMBERSHIP) -> int | None:
    """Bytes that it may still take; None where nothing limits it."""
    lefts = (_memory_left(folder) for folder in _folders("memory", mount, membership))
    return min((left for left in lefts if left is not None), default=None)


def _folders(controller: str, mount: Path, membership: Path) -> Iterator[Path]:
    """Of the group and of those around it, each of which may have a limit.

    In a container the path may be the host's, and only the mount itself be there.
    """
    lines = membership.read_text().splitlines() if membership.exists() else []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controller if controllers else mount
        folder = top / path.lstrip("/")
        yield from (folder, *(around for around in folder.parents if around.is_relative_to(top)))


def _cpu_quota(folder: Path) -> float | None:
    """In CPUs."""
    older = "cpu.cfs_quota_us", "cpu.cfs_period_us"
    said = _words(folder / "cpu.max") or [word for name in older for word in _words(folder / name)]
    if not said or said[0] in ("max", "-1"):
        return None
    quota, period = map(int, said)
    return quota / period


def _memory_left(folder: Path) -> int | None:
    """What files take of it can be had back."""
    limit = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes") or ["max"]
    taken = _words(folder / "memory.current") or _words(folder / "memory.usage_in_bytes")
    if limit == ["max"] or not taken:
        return None
    statistics = _words(folder / "memory.stat")
    files = dict(zip(statistics[::2], map(int, statistics[1::2]), strict=True))
    idle = files.get("total_inactive_file", files.get("inactive_file", 0))
    return int(limit[0]) - int(taken[0]) + idle


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # of the other version, or not shown to us
        return []
