"""Loopback ports for the embedded servers."""

import random
import socket
from collections.abc import Sequence
from contextlib import closing

HOST = "127.0.0.1"

# SeaweedFS's parts look for each other's gRPC port at this distance from the HTTP port.
PAIR_DISTANCE = 10_000

# Both ports of a pair stay below 32768, where Linux begins to hand out ports to outgoing
# connections: one of those could take a port between our look and the server's bind.
_CANDIDATES = range(15_000, 22_700)


def is_free(port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # As the servers do: connections of a server that has just stopped do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_pairs(count: int, *, preferred: Sequence[int] = ()) -> list[int]:
    """`count` different ports, each free together with the one PAIR_DISTANCE above it."""
    found: list[int] = []
    for port in (*preferred, *random.sample(_CANDIDATES, len(_CANDIDATES))):
        if port not in found and is_free(port) and is_free(port + PAIR_DISTANCE):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"fewer than {count} free ports in {_CANDIDATES}")
