"""The log files of the stack's programs: one a role, and the one of the run before."""

from collections.abc import Iterator
from pathlib import Path

_TAIL_BYTES = 4000
_TAIL_LINES = 3


def rotate(log: Path) -> None:
    """Set the last run's log aside as `<role>.log.1`, and begin an empty one."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    log.touch(mode=0o600)


def tail(log: Path) -> str:
    """The last lines, on one line: what goes behind "its log ends with"."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-_TAIL_LINES:])


def said(log: Path, mark: str) -> Iterator[str]:
    """What stands behind `mark` in each line that has it."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            _, found, rest = line.partition(mark)
            if found:
                yield rest.strip()
