"""`gristmill up` as a child process: what the demo and the tests work against."""

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from cli import ports, up_file
from cli.process import Process
from cli.program import NotReady, Program
from cli.settings import inherited

_ROOT = Path(__file__).parents[1]
# Loading a large model is part of coming up; ending it, a worker's drain and a server's flush.
_READY_SECONDS = 900.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What `up.json` says."""

    api_url: str
    api_key: str
    webhook_secret: str
    dashboard_url: str
    metrics_urls: list[str]
    database_url: str
    broker_url: str
    storage: dict[str, str]
    pids: dict[str, Any]

    @classmethod
    def of(cls, data_dir: Path) -> Self:
        return cls(**json.loads((data_dir / up_file.NAME).read_text(encoding="utf-8")))


def background_stack(
    data_dir: Path,
    *,
    log: Path,
    arguments: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Process:
    """Start it; the caller waits until it is ready, and stops it.

    It takes any free port, and leaves the usual one to people.  `log` may not lie in `data_dir`,
    which has to be empty at first.
    """
    where = ("--data-dir", str(data_dir), "--port", str(ports.free_pairs(1)[0]))
    return Process(
        Program(
            name="gristmill up",
            argv=(sys.executable, "-m", "cli", "up", *where, *arguments),
            env={**inherited(), **(settings or {})},
            cwd=_ROOT,
            log=log,
            probe=partial(_is_up, data_dir),
            ready_seconds=_READY_SECONDS,
            stop_signal=signal.SIGINT,
            stop_seconds=_STOP_SECONDS,
            orphan_signal=signal.SIGTERM,
        )
    )


def _is_up(data_dir: Path, pid: int) -> None:
    # The file of a predecessor that was killed may still lie there.
    if not (data_dir / up_file.NAME).exists() or Facts.of(data_dir).pids["up"] != pid:
        raise NotReady("up.json is not written yet")
