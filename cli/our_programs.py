"""Gristmill's own programs as the stack runs them: the API, the control program, the workers."""

import socket
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import httpx
from sqlalchemy.exc import SQLAlchemyError

from cli.ports import HOST
from cli.program import NotReady, Program
from cli.settings import inherited
from jobs import workers
from jobs.database import Sessions

# Seconds.  A worker finishes what it can in the first, and is killed after both; what it did not
# finish waits for the next start.
_DRAIN_GRACE = 5
_MARGIN = 5
# A model of some gigabytes is read and copied to a device before its worker is ready.
_MODEL_SECONDS = 600.0
# Where `python -m api` finds the packages, installed or not.
_ROOT = Path(__file__).parents[1]
# A worker's math threads must not spin while they wait for each other: the servers, the API and the
# control process run on the same cores.
_SHARED_MACHINE = {"OMP_WAIT_POLICY": "passive"}
# Webhooks may go to this very machine, where the receiver of whoever tries it out listens.
_LOCAL = {"WEBHOOKS__ALLOW_PRIVATE": "true"}


def api(settings: Mapping[str, str], *, port: int, logs: Path) -> Program:
    return Program(
        name="api",
        argv=(sys.executable, "-m", "api", "--host", HOST, "--port", str(port)),
        env={**inherited(), **settings, **_LOCAL},
        cwd=_ROOT,
        log=logs / "api.log",
        probe=partial(_answers, f"http://{HOST}:{port}/readyz"),
    )


def control(settings: Mapping[str, str], *, sessions: Sessions, logs: Path) -> Program:
    return Program(
        name="control",
        argv=(sys.executable, "-m", "worker.control"),
        env={**inherited(), **settings, **_LOCAL},
        cwd=_ROOT,
        log=logs / "control.log",
        probe=partial(_beats, sessions),
        bury=partial(_end_leases, sessions),
    )


def inference(settings: Mapping[str, str], *, name: str, sessions: Sessions, logs: Path) -> Program:
    """`settings` say which model, and which engine."""
    return Program(
        name=name,
        argv=(sys.executable, "-m", "worker.inference"),
        env={**_SHARED_MACHINE, "DRAIN__GRACE": f"PT{_DRAIN_GRACE}S", **inherited(), **settings},
        cwd=_ROOT,
        log=logs / f"{name}.log",
        probe=partial(_beats, sessions),
        bury=partial(_end_leases, sessions),
        ready_seconds=_MODEL_SECONDS,
        stop_seconds=_DRAIN_GRACE + _MARGIN,
    )


def _answers(url: str, _pid: int) -> None:
    try:
        httpx.get(url, timeout=2, trust_env=False).raise_for_status()
    except httpx.HTTPError as error:
        raise NotReady(f"{url}: {error}") from error


def _end_leases(sessions: Sessions, pid: int) -> None:
    """Whoever saw a worker end need not wait for its beat to lapse.  Best effort: it lapses."""
    try:
        with sessions.begin() as session:
            workers.bury(session, host=socket.gethostname(), pid=pid)
    except SQLAlchemyError:
        return


def _beats(sessions: Sessions, pid: int) -> None:
    try:
        with sessions() as session:
            alive = workers.is_alive(session, pid=pid)
    except SQLAlchemyError as error:
        raise NotReady(str(error)) from error
    if not alive:
        raise NotReady("it has not registered as a worker")
