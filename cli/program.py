"""What a program of the stack is: how to start it, how to know it is ready, how to end it.

The supervisor treats a database and a worker alike; all that differs between them is in here.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


class NotReady(Exception):
    """The program does not answer yet; the message says how it failed to."""


def _nothing() -> None:
    return None


def _at_once(_pid: int) -> None:
    return None


def _unmourned(_pid: int) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program of the stack, described before it runs and again after it died.

    name:          its own in the stack, and its log's.
    prepare:       runs before each start; clears what a killed predecessor left.
    probe:         one try at a real handshake with that pid; raises NotReady until it succeeds.
    bury:          runs after each death that nobody asked for, with the pid that has gone.
    tidy:          runs after it has been stopped for good.
    stop_signal:   asks for a clean end; whoever has not ended after `stop_seconds` is killed.
    orphan_signal: what the kernel sends it when its supervisor dies, however that died.
    user:          the uid to run as; None is our own.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    log: Path
    prepare: Callable[[], None] = _nothing
    probe: Callable[[int], None] = _at_once
    bury: Callable[[int], None] = _unmourned
    tidy: Callable[[], None] = _nothing
    ready_seconds: float = 30.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    orphan_signal: signal.Signals = signal.SIGKILL
    user: int | None = None
