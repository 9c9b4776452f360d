"""Which addresses a tenant's webhook may reach."""

import ipaddress

import httpcore
import pytest

from jobs.addresses import is_public
from worker.control.egress import AddressRefused, CheckedBackend

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


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "0x7f000001", "[::1]"])
@pytest.mark.law("P29")
def test_no_spelling_of_this_machine_is_dialled(host: str) -> None:
    backend = CheckedBackend(allow_private=False, seconds=5)

    with pytest.raises((AddressRefused, httpcore.ConnectError)):
        backend.connect_tcp(host, 9, timeout=1)
