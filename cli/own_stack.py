"""A whole stack for one command's use: ready on entering, stopped on leaving."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from cli.background_stack import Facts, background_stack
from cli.servers import embedded


@contextmanager
def own_stack(
    console: Console, arguments: Sequence[str], *, data_dir: Path | None = None
) -> Iterator[Facts]:
    """`arguments` are those of `gristmill up`.  Its folder goes with it, unless `data_dir` is one.

    Raises ServerUnavailable if it does not come up.
    """
    folder = Path(tempfile.mkdtemp(prefix="gristmill-"))
    folder.chmod(0o711)  # Postgres may run as somebody else
    home = data_dir or folder / "data"
    stack = background_stack(home, log=folder / "up.log", arguments=arguments)
    try:
        with console.status("Starting Postgres, Valkey, S3, the API, a control process, a worker"):
            stack.wait_ready()
        yield Facts.of(home)
    finally:
        with console.status("Stopping everything"):
            stack.stop()
        if data_dir is None and home.exists():
            embedded.remove(home)
        shutil.rmtree(folder, ignore_errors=True)
