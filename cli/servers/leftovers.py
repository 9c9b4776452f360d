"""Ends Postgres backends that a killed predecessor left at work on a folder of ours."""

import contextlib
import os
import signal
import time
from pathlib import Path

_WAIT_SECONDS = 5.0


def end_backends_of(data: Path) -> None:
    """Kill every Postgres process that works in `data`, and wait until they are gone.

    A busy backend outlives its killed server and keeps the shared memory, which keeps the next
    server from starting.  It leads a process group of its own, so only the folder tells whose it
    is.  Where there is no /proc, Postgres's own checks have to do.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while (pids := _backends_of(data.resolve())) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _backends_of(data: Path) -> list[int]:
    processes = Path("/proc").glob("[0-9]*")
    return [int(process.name) for process in processes if _is_backend(process, data)]


def _is_backend(process: Path, data: Path) -> bool:
    try:
        program = Path(os.readlink(process / "exe"))
        return program.name.startswith("postgres") and Path(os.readlink(process / "cwd")) == data
    except OSError:  # it has ended, or it is another user's
        return False
