"""The supervisor, over small real programs."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.errors import ServerUnavailable
from cli.interrupts import Interrupted, Interrupts
from cli.program import NotReady, Program
from cli.supervisor import Supervisor
from tests.integration.cli.processes import is_running, wait_for

_SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
_STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + _SLEEPER
_FAILING = "import sys; sys.exit('no model called x')"
_PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {_SLEEPER!r}], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    noted = Interrupts()
    with noted.noted():
        yield noted


@pytest.fixture
def supervisor(interrupts: Interrupts) -> Iterator[Supervisor]:
    supervisor = Supervisor(interrupts)
    yield supervisor
    supervisor.stop()


def program(folder: Path, code: str, **changes: object) -> Program:
    """A Python program that is ready once it has printed something."""
    log = folder / "program.log"

    def has_printed(_pid: int) -> None:
        if not log.exists() or not log.read_text(encoding="utf-8"):
            raise NotReady("it has printed nothing")

    fields = {
        "name": "program",
        "argv": (sys.executable, "-c", code),
        "env": {},
        "cwd": folder,
        "log": log,
        "probe": has_printed,
        "stop_seconds": 0.5,
    }
    return Program(**(fields | changes))  # type: ignore[arg-type]  # each test names its own fields


def test_killed_program_is_started_again(
    tmp_path: Path, supervisor: Supervisor, interrupts: Interrupts
) -> None:
    supervisor.start([program(tmp_path, _SLEEPER)])
    first = supervisor.pids()["program"]
    os.kill(first, signal.SIGKILL)
    restarted: list[tuple[str, int]] = []

    def note_and_end(name: str, code: int) -> None:
        restarted.append((name, code))
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        supervisor.keep_running(note_and_end)

    second = supervisor.pids()["program"]
    assert restarted == [("program", -signal.SIGKILL)]
    assert second != first
    assert is_running(second)


def test_program_that_dies_before_anyone_looks_counts_as_one_that_works(
    tmp_path: Path, supervisor: Supervisor, interrupts: Interrupts
) -> None:
    """Its probe answers after its death too: a worker's does for as long as its beat would last."""
    buried, restarts = list[int](), list[str]()
    mortal = program(tmp_path, "print('up', flush=True)", bury=buried.append)
    supervisor.start([mortal])

    def note(name: str, _code: int) -> None:
        restarts.append(name)
        if len(restarts) == 6:  # one more than failed starts are borne
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        supervisor.keep_running(note)

    assert len(set(buried)) == 6


def test_program_that_ends_instead_of_coming_up_is_told_with_its_last_words(
    tmp_path: Path, supervisor: Supervisor
) -> None:
    with pytest.raises(ServerUnavailable, match=r"program ended with code 1.*no model called x"):
        supervisor.start([program(tmp_path, _FAILING, probe=_never)])


def test_program_that_is_never_ready_again_is_given_up(
    tmp_path: Path, supervisor: Supervisor
) -> None:
    flag = tmp_path / "worked-once"
    code = f"import pathlib, sys\nif pathlib.Path({str(flag)!r}).exists(): sys.exit('spent')\n"
    flaky = program(tmp_path, code + _SLEEPER, probe=lambda _pid: _unless(not flag.exists()))
    supervisor.start([flaky])
    flag.touch()
    os.kill(supervisor.pids()["program"], signal.SIGKILL)

    with pytest.raises(ServerUnavailable, match=r"ends again and again.*spent"):
        supervisor.keep_running(lambda _name, _code: None)


def test_program_that_is_not_ready_in_time_is_told_why(
    tmp_path: Path, supervisor: Supervisor
) -> None:
    slow = program(tmp_path, _SLEEPER, probe=_never, ready_seconds=0.3)

    with pytest.raises(ServerUnavailable, match="did not become ready: never"):
        supervisor.start([slow])


def test_interrupt_while_a_program_comes_up_ends_the_start(
    tmp_path: Path, supervisor: Supervisor
) -> None:
    pid = os.getpid()
    threading.Timer(0.2, os.kill, (pid, signal.SIGTERM)).start()

    with pytest.raises(Interrupted):
        supervisor.start([program(tmp_path, _SLEEPER, probe=_never)])
    children = list(supervisor.pids().values())
    supervisor.stop()

    assert not any(is_running(child) for child in children)


def test_program_that_ignores_the_signal_is_killed_when_its_time_is_up(
    tmp_path: Path, supervisor: Supervisor
) -> None:
    supervisor.start([program(tmp_path, _STUBBORN)])
    pid = supervisor.pids()["program"]

    supervisor.stop()

    assert not is_running(pid)


def test_what_a_program_forked_ends_with_it(tmp_path: Path, supervisor: Supervisor) -> None:
    supervisor.start([program(tmp_path, _PARENT)])
    child = int((tmp_path / "program.log").read_text(encoding="utf-8"))
    assert is_running(child)

    supervisor.stop()

    wait_for(lambda: not is_running(child))


def test_child_ends_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    """The kernel sees to it, so it holds for a kill -9 too."""
    told = tmp_path / "pid"
    code = f"""
import pathlib, signal, sys, time
from cli.process import Process
from cli.program import Program
child = Process(Program(name="child", argv=(sys.executable, "-c", {_SLEEPER!r}), env={{}},
                        cwd=pathlib.Path("/"), log=pathlib.Path({str(tmp_path / "child.log")!r})))
pathlib.Path({str(told)!r}).write_text(str(child.pid))
signal.raise_signal(signal.SIGKILL)
"""
    parent = program(tmp_path, code, cwd=Path.cwd(), probe=_never)
    supervisor = Supervisor(Interrupts())

    with pytest.raises(ServerUnavailable, match="code -9"):
        supervisor.start([parent])

    wait_for(lambda: not is_running(int(told.read_text())))


def _never(_pid: int) -> None:
    raise NotReady("never")


def _unless(ready: bool) -> None:
    if not ready:
        raise NotReady("not yet")
