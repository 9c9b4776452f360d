"""Which addresses a tenant's webhook may reach."""

import ipaddress
import select
import socket
from collections.abc import Iterator
from typing import Any

import httpcore
import pytest

from jobs.addresses import is_public
from worker.control.egress import AddressRefused, CheckedBackend
from worker.control.names import Resolver

REFUSED = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.2.1"),
    *("198.51.100.1", "203.0.113.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "100::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1"),
    *("2002:7f00:1::", "2001:0:1::1"),
]

ALLOWED = ["8.8.8.8", "1.1.1.1", "172.15.0.1", "2606:4700::1111", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("address", REFUSED)
@pytest.mark.law("P29")
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ALLOWED)
def test_what_is_public_is_allowed(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A service of this machine's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def was_called(listener: socket.socket) -> bool:
    """Whether anybody so much as began a connection."""
    return bool(select.select([listener], [], [], 0)[0])


def dial(host: str, port: int) -> None:
    backend = CheckedBackend(Resolver(1), allow_private=False, seconds=5)
    backend.connect_tcp(host, port, timeout=0.2)


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "::1"],
)
@pytest.mark.law("P29")
def test_no_spelling_of_this_machine_is_dialled(listener: socket.socket, host: str) -> None:
    with pytest.raises((AddressRefused, httpcore.ConnectError)):
        dial(host, listener.getsockname()[1])

    assert not was_called(listener)


class Names:
    """A DNS of the test's own: each name has answers, given one after the other.  An address is
    itself, as ever."""

    def __init__(self, answers: dict[str, list[list[str]]]) -> None:
        self._answers = answers
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *arguments: Any, **named: Any) -> Any:
        if host not in self._answers:
            return self._real(host, port, *arguments, **named)
        given = self._answers[host]
        addresses = given.pop(0) if len(given) > 1 else given[0]
        return [
            found for each in addresses for found in self._real(each, port, *arguments, **named)
        ]


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"]],
    ids=str,
)
@pytest.mark.law("P29")
def test_a_name_that_leads_here_too_is_not_dialled_at_all(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    name = "127.0.0.1.nip.example"
    monkeypatch.setattr(socket, "getaddrinfo", Names({name: [addresses]}))

    with pytest.raises(AddressRefused):
        dial(name, listener.getsockname()[1])

    assert not was_called(listener)


@pytest.mark.law("P29")
def test_a_name_that_changes_its_mind_is_dialled_where_it_was_judged(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names({"rebinding.example": [["8.8.8.8"], ["127.0.0.1"]]})
    monkeypatch.setattr(socket, "getaddrinfo", names)

    with pytest.raises((httpcore.ConnectError, httpcore.ConnectTimeout)):
        dial("rebinding.example", listener.getsockname()[1])

    assert not was_called(listener)
