"""Connects to the addresses that tenants may name, and to no others.

A webhook's host is resolved anew for each attempt, every address it has is judged, and the judged
address itself is dialled, so that a name cannot change its mind in between (DNS rebinding).  TLS
still checks the name.  No redirect is followed and no proxy is taken from the environment.
"""

import ipaddress
import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore

from jobs.addresses import is_public
from worker.control.names import NotFoundInTime, Resolver


class AddressRefused(Exception):
    """The host has an address that is not public."""


class CheckedBackend(httpcore.NetworkBackend):
    """Dials a host only if all of its addresses are public, or `allow_private`.

    Everything over its connections ends within `seconds` of its making, the look-up included.
    """

    def __init__(self, resolver: Resolver, *, allow_private: bool, seconds: float) -> None:
        self._resolver = resolver
        self._allow_private = allow_private
        self._deadline = Deadline(seconds)
        self._dialler = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._dialler.connect_tcp(
            self._resolve(host, port, self._deadline.within(timeout)),
            port,
            timeout=self._deadline.within(timeout),
            local_address=local_address,
            socket_options=socket_options,
        )
        return _BoundedStream(stream, self._deadline)

    def _resolve(self, host: str, port: int, seconds: float) -> str:
        try:
            found = self._resolver.addresses(host, port, seconds=seconds)
        except NotFoundInTime as late:
            raise httpcore.ConnectTimeout("the host does not resolve in time") from late
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the host does not resolve: {error}") from error
        addresses = [ipaddress.ip_address(address) for address in found]
        if not self._allow_private and not all(map(is_public, addresses)):
            raise AddressRefused("the host has an address that is not public")
        return str(addresses[0])


class Deadline:
    """A moment `seconds` from now; each call gets what is left, or its own timeout if shorter."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def within(self, timeout: float | None) -> float:
        """Raises httpcore.ReadTimeout once nothing is left."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the attempt took too long")
        return left if timeout is None else min(left, timeout)


class _BoundedStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.within(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.within(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        within = self._deadline.within(timeout)
        secured = self._stream.start_tls(ssl_context, server_hostname, within)
        return _BoundedStream(secured, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
