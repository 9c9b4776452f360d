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

from jobs.addresses import is_public


class AddressRefused(Exception):
    """The host has an address that is not public."""


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
