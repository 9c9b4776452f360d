"""A whole stack with an echo engine for one benchmark, in a folder that goes with it."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from cli.background_stack import Facts, background_stack
from cli.servers import embedded


@contextmanager
def own_stack(*, workers: int) -> Iterator[Facts]:
    """Ready on entering; stopped and gone on leaving."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-bench-"))
    folder.chmod(0o711)  # Postgres may run as somebody else
    home = folder / "data"
    stack = background_stack(
        home, log=folder / "up.log", arguments=["--engine", "echo", "--workers", str(workers)]
    )
    try:
        stack.wait_ready()
        yield Facts.of(home)
    finally:
        stack.stop()
        if home.exists():
            embedded.remove(home)
        shutil.rmtree(folder)


def client_of(facts: Facts) -> httpx.Client:
    return httpx.Client(
        base_url=facts.api_url,
        headers={"Authorization": f"Bearer {facts.api_key}"},
        timeout=600,
        trust_env=False,
    )
