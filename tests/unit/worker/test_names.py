"""Names that hang hold nobody for longer than he waits, and only so many threads."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpcore
import pytest

from worker.control.egress import CheckedBackend
from worker.control.names import NotFoundInTime, Resolver

PATIENCE = 60.0  # seconds
AT_ONCE = 0.01


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The DNS of `*.example`, which says nothing until this is set."""
    answering, real = threading.Event(), socket.getaddrinfo

    def ask(host: Any, *arguments: Any, **named: Any) -> Any:
        if str(host).endswith(".example"):
            answering.wait()
            host = "8.8.8.8"
        return real(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    yield answering
    answering.set()
    for thread in lookups():
        thread.join()


def lookups() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "resolver"]


def test_a_name_is_found(servers: threading.Event) -> None:
    servers.set()

    assert Resolver(1).addresses("a.example", 443, seconds=PATIENCE) == ["8.8.8.8"]


def test_what_the_system_says_of_a_name_is_said_to_the_caller() -> None:
    with pytest.raises(socket.gaierror):
        Resolver(1).addresses("no such name", 443, seconds=PATIENCE)


def test_names_that_hang_are_waited_for_by_no_more_threads_than_agreed(
    servers: threading.Event,
) -> None:
    resolver = Resolver(2)

    for number in range(5):
        with pytest.raises(NotFoundInTime):
            resolver.addresses(f"{number}.example", 443, seconds=AT_ONCE)

    assert len(lookups()) == 2


def test_names_are_found_again_once_their_servers_answer(servers: threading.Event) -> None:
    resolver = Resolver(1)
    with pytest.raises(NotFoundInTime):
        resolver.addresses("a.example", 443, seconds=AT_ONCE)

    servers.set()

    assert resolver.addresses("b.example", 443, seconds=PATIENCE) == ["8.8.8.8"]


def test_an_attempt_at_a_name_that_hangs_ends_in_time(servers: threading.Event) -> None:
    backend = CheckedBackend(Resolver(1), allow_private=False, seconds=PATIENCE)

    with pytest.raises(httpcore.ConnectTimeout):
        backend.connect_tcp("a.example", 443, timeout=AT_ONCE)
