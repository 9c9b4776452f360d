"""`gristmill top`: the queues, the workers and the batches at work, live in the terminal.

It asks the database alone, so it also tells what is wrong while the API is down.
"""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text
from sqlalchemy.exc import InterfaceError, OperationalError

from cli import deployment
from cli.interrupts import Interrupted, Interrupts
from cli.settings import CommandSettings
from cli.top_frame import frame
from jobs import overview
from jobs.database import Sessions
from jobs.overview.views import Overview
from jobs.settings import read

DataDir = Annotated[
    Path, typer.Option(help="The stack's, where the environment names no DATABASE__URL.")
]
Once = Annotated[bool, typer.Option("--once", help="Print one look and end.")]
Interval = Annotated[float, typer.Option(min=0.5, help="Seconds between two looks.")]
_STANDARD_DIR = Path(".gristmill")

_PAGE_WIDTH = 160  # of what no terminal bounds
_TICK = 0.1  # seconds until a Ctrl-C is heard


def top(*, once: Once = False, interval: Interval = 2.0, data_dir: DataDir = _STANDARD_DIR) -> None:
    """Watch the queues, the workers and the batches at work, until Ctrl-C.

    Where the output is no terminal it prints one look and ends, as with --once.
    """
    console = Console()
    with deployment.connected(data_dir) as sessions:
        watch = _Watch(sessions)
        if once or not console.is_terminal:
            seen = watch.look()
            page = console if console.is_terminal else Console(width=_PAGE_WIDTH)
            page.print(frame(seen, width=page.width))
        else:
            _keep_looking(console, watch, interval)


class _Watch:
    """The deployment of a database; remembers what it saw last."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._beat_ttl = read(CommandSettings).leases.ttl
        self._last: Overview | None = None

    def look(self) -> Overview:
        self._last = overview.take(self._sessions, beat_ttl=self._beat_ttl)
        return self._last

    def frame(self, width: int) -> RenderableType:
        """A new look; where the database does not answer, the last one, and that it is old."""
        try:
            return frame(self.look(), width=width)
        except (OperationalError, InterfaceError) as error:
            if self._last is None:
                raise
            words = " ".join(str(error.orig).split())
            away = Text(f"The database does not answer; this is what it last said. {words}", "red")
            return Group(away, frame(self._last, width=width))


def _keep_looking(console: Console, watch: _Watch, interval: float) -> None:
    interrupts = Interrupts()
    first = watch.frame(console.width)  # what fails at once fails in one sentence
    with interrupts.noted(), Live(first, console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                _wait(interval, interrupts)
                live.update(watch.frame(console.width), refresh=True)
        except Interrupted:
            return


def _wait(seconds: float, interrupts: Interrupts) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        interrupts.check()
        time.sleep(_TICK)
