"""The folder that is one stack: its data, passwords and logs, and the lock of whoever runs it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.errors import AlreadyRunning, CommandFailed

_MARK = "gristmill.lock"


@contextmanager
def opened(folder: Path) -> Iterator[Path]:
    """Hold `folder`, making it if need be, against every other `up`.

    The lock is the kernel's: it goes with its holder, however that ends.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(folder)
        lock = (folder / _MARK).open("wb")
    except OSError as error:
        raise CommandFailed(f"{folder} cannot be a data directory: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(
                f"another `gristmill up` runs in {folder}; stop it, or choose another --data-dir"
            ) from error
        # Postgres, run as somebody else, must get through; what is in here has modes of its own.
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
        yield folder.resolve()


def _refuse_foreign(folder: Path) -> None:
    """Nobody's home directory may lose its permissions to a slip of the keyboard."""
    if not (folder / _MARK).exists() and any(folder.iterdir()):
        raise CommandFailed(
            f"{folder} holds other files; choose an empty or a new folder with --data-dir"
        )
