"""A Postgres all of whose processes are stopped: the kernel takes what it is sent, and that is all.

The server is this test's own, for others share the run's.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from cli.process import Process
from cli.servers.embedded import embedded, remove
from cli.servers.postgres import Postgres
from migrations.upgrade import upgrade
from tests.integration.api.test_process import running

_TIMEOUT = 30.0  # seconds, of what would hang for as long as the server is stopped


@pytest.fixture
def own_postgres() -> Iterator[tuple[Postgres, Process]]:
    folder = Path(tempfile.mkdtemp(prefix="gristmill-frozen-"))
    folder.chmod(0o711)  # Postgres may run as somebody else
    postgres = embedded(folder / "data", durable=False).postgres
    process = Process(postgres.program())
    process.wait_ready()
    yield postgres, process
    process.stop()
    remove(folder / "data")
    shutil.rmtree(folder)


@contextmanager
def frozen(server: int) -> Iterator[None]:
    """The postmaster first, so that it makes no more children."""
    os.kill(server, signal.SIGSTOP)
    children = Path(f"/proc/{server}/task/{server}/children").read_text(encoding="ascii").split()
    pids = [server, *map(int, children)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_while_postgres_hangs_a_scrape_says_so_and_the_api_is_not_ready(
    environment: dict[str, str], own_postgres: tuple[Postgres, Process], tmp_path: Path
) -> None:
    postgres, server = own_postgres
    upgrade(postgres.url)
    environment["DATABASE__URL"] = postgres.url

    with running(environment, tmp_path / "api.log") as (_, url):
        with frozen(server.pid):
            ready = httpx.get(f"{url}/readyz", timeout=_TIMEOUT)
            scrape = httpx.get(f"{url}/metrics", timeout=_TIMEOUT)
        while httpx.get(f"{url}/readyz", timeout=_TIMEOUT).status_code != 200:
            pass
        while "gristmill_database_up 1.0" not in httpx.get(f"{url}/metrics", timeout=_TIMEOUT).text:
            pass

    assert ready.status_code == 503
    assert scrape.status_code == 200
    assert "gristmill_database_up 0.0" in scrape.text
