"""Watching processes that are not this one's children."""

import time
from collections.abc import Callable
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether it is there and not merely waiting to be collected by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def mentioning(folder: Path) -> list[int]:
    """The processes that have `folder` in their command line or environment."""
    return [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if bytes(folder) in _read(process / "cmdline") + _read(process / "environ")
    ]


def wait_for(condition: Callable[[], bool], *, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(0.02)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
