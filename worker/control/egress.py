"""Connects to the addresses that tenants may name, and to no others.

A webhook's host is resolved anew for each attempt, every address it has is judged, and the judged
address itself is dialled, so that a name cannot change its mind in between (DNS rebinding).  TLS
still checks the name.  No redirect is followed and no proxy is taken from the environment.
"""

import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

import httpcore

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Ways to write an IPv4 address inside an IPv6 one that `is_global` does not look through.
_TUNNELS = (
    ipaddress.ip_network("64:ff9b::/96"),  # NAT64
    ipaddress.ip_network("64:ff9b:1::/48"),  # NAT64, local use
    ipaddress.ip_network("2002::/16"),  # 6to4
    ipaddress.ip_network("2001::/32"),  # Teredo
)


class AddressRefused(Exception):
    """The host has an address that is not public."""


def is_public(address: IpAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if any(address in tunnel for tunnel in _TUNNELS):
            return False
    return address.is_global and not address.is_multicast


class CheckedBackend(httpcore.NetworkBackend):
    """Dials a host only if all of its addresses are public, or `allow_private`."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._dialler = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        address = self._resolve(host, port)
        return self._dialler.connect_tcp(
            address,
            port,
            timeout=timeout,
            local_address=local_address,
            socket_options=socket_options,
        )

    def _resolve(self, host: str, port: int) -> str:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the host does not resolve: {error}") from error
        addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
        if not self._allow_private and not all(map(is_public, addresses)):
            raise AddressRefused("the host has an address that is not public")
        return str(addresses[0])
