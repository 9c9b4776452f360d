"""`gristmill top`: what it prints of a database, and how it lives in a terminal."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, func, make_url, text
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner, Result

from cli.main import app, main
from cli.ports import HOST, free_pairs
from jobs.database import Sessions
from jobs.models import JobState
from jobs.secrets import Secrets
from tests.fixtures.until import until
from tests.integration.dashboard.scene import MODEL, TTL, Scene, open_scene

Run = Callable[..., Result]
ALT_SCREEN, MAIN_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def scene(sessions: Sessions) -> Iterator[Scene]:
    with open_scene(sessions, Secrets(Secrets.generate_key())) as scene:
        yield scene


@pytest.fixture
def settings(database_url: str) -> dict[str, str]:
    return {"DATABASE__URL": database_url, "LEASES__TTL": f"PT{TTL.seconds}S"}


@pytest.fixture
def run(settings: dict[str, str]) -> Run:
    def run(*arguments: str, **more: str) -> Result:
        return CliRunner().invoke(app, ["top", *arguments], env=settings | more)

    return run


def words(page: str) -> str:
    """Without what only draws."""
    return re.sub(r"[━╸╺\s]+", " ", page)


def test_one_look_shows_queues_workers_and_open_batches_and_ends(scene: Scene, run: Run) -> None:
    stats = {"running": 6, "waiting": 2, "output_tokens_per_second": 250.0, "kv_blocks_total": 40}
    worker = scene.worker(stats=stats | {"kv_blocks_used": 10, "prefix_hit_rate": 0.8})
    scene.worker(model=None)
    job = scene.batch(total=90, in_progress_at=func.now() - timedelta(hours=1))
    scene.shard(job, rows=16, owner=worker)
    scene.shard(job, rows=32)
    scene.segment(job, ok=25, failed=5)

    result = run("--once")

    shown = words(result.stdout)
    assert result.exit_code == 0
    assert "1 inference, 1 control 32 waiting 6 running 250 tokens/s" in shown
    assert f"{MODEL} bulk 32 10 6" in shown
    assert f"{MODEL} host-1 4711 alive" in shown
    assert " 6 2 250 — 80 % 25 % " in shown
    assert "control host-1 4711 alive" in shown
    assert f"batch_{job.hex} {scene.tenant_name} running 33 % 30 90 5 0.5 2 m 00 s" in shown


def test_a_narrow_terminal_still_shows_whole_ids_and_what_is_left(scene: Scene, run: Run) -> None:
    scene.worker()
    job = scene.batch(total=90, in_progress_at=func.now() - timedelta(hours=1))
    scene.segment(job, ok=30)

    result = run("--once", COLUMNS="80", TTY_COMPATIBLE="1", TERM="dumb")

    shown = words(result.stdout)
    assert f"batch_{job.hex} running 33 % 2 m 00 s" in shown
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_what_keeps_work_from_going_on_is_said(scene: Scene, run: Run) -> None:
    job = scene.batch(total=90, paused=True)
    scene.shard(job, rows=32)
    scene.segment(job, ok=30)
    scene.batch(state=JobState.COMPLETED, total=1)

    shown = words(run("--once").stdout)

    assert "No control process is alive" in shown
    assert f"No worker serves {MODEL}" in shown
    assert "No worker is alive" in shown
    assert f"batch_{job.hex} {scene.tenant_name} paused 33 % 30 90 0 0.5 —" in shown
    assert shown.count("batch_") == 1  # what has ended is no work


def test_a_name_in_brackets_is_shown_as_it_is(scene: Scene, run: Run) -> None:
    scene.worker(model="[red]org/[/]model", host="[bold]")

    shown = words(run("--once").stdout)

    assert "[red]org/[/]model [bold] 4711 alive" in shown


def test_without_a_database_it_ends_at_once(run: Run) -> None:
    nowhere = f"postgresql+psycopg://gristmill@{HOST}:{free_pairs(1)[0]}/gristmill"

    result = run("--once", DATABASE__URL=nowhere)

    assert isinstance(result.exception, OperationalError)  # of which `main` makes a sentence


def test_a_database_without_our_tables_is_named_in_one_sentence(
    database_template: URL, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = database_template.set(database="postgres").render_as_string(hide_password=False)
    monkeypatch.setenv("DATABASE__URL", empty)
    monkeypatch.setattr(sys, "argv", ["gristmill", "top", "--once"])

    with pytest.raises(SystemExit) as end:
        main()

    said = capsys.readouterr().err
    assert end.value.code == 1
    assert "run `gristmill migrate`" in said
    assert said.count("\n") == 1


class Screen:
    """`gristmill top` in a terminal, and all that it has written there."""

    def __init__(self, env: dict[str, str]) -> None:
        ours, its = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli", "top", "--interval", "0.5"],
            stdin=its,
            stdout=its,
            stderr=its,
            env={**os.environ, **env, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
            cwd=Path(__file__).parents[3],
        )
        os.close(its)
        self._ours = ours
        self._written = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def shows(self, what: str) -> bool:
        """Whether it comes to stand there from now on."""
        begun = len(self._written)
        return until(lambda: what.encode() in self._written[begun:])

    @property
    def written(self) -> str:
        return self._written.decode()

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=20)
        self._reader.join()
        os.close(self._ours)
        return code

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the terminal's other end is closed
            while data := os.read(self._ours, 2**16):
                self._written += data


@contextmanager
def refused(server: URL, name: str) -> Iterator[None]:
    """While the `with` lasts the server lets nobody into this database."""

    def run(statement: str) -> None:
        with engine.connect() as connection:
            connection.execute(text(statement))

    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    yield
    run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    engine.dispose()


def test_in_a_terminal_it_follows_what_happens_until_it_is_told_to_end(
    scene: Scene, settings: dict[str, str]
) -> None:
    screen = Screen(settings)

    assert screen.shows("No batch is open")
    job = scene.batch(total=90)
    assert screen.shows(f"batch_{job.hex}")
    code = screen.end(signal.SIGTERM)

    assert code == 0
    assert screen.written.count(ALT_SCREEN) == screen.written.count(MAIN_SCREEN) == 1
    assert screen.written.rindex(MAIN_SCREEN) > screen.written.rindex("batch_")


def test_an_outage_of_the_database_is_shown_and_survived_until_ctrl_c(
    sessions: Sessions, settings: dict[str, str], database_template: URL
) -> None:
    name = make_url(settings["DATABASE__URL"]).database
    assert name is not None
    screen = Screen(settings)

    assert screen.shows("No batch is open")
    with refused(database_template, name):
        assert screen.shows("The database does not answer")
    assert screen.shows("\x1b[Hgristmill") or screen.shows("gristmill")
    code = screen.end(signal.SIGINT)

    assert code == 0
