"""Loopback ports, and whose they are.

Between choosing a port and binding it lies the start of a server.  Another start on this machine
must not choose the same in the meantime, so a chosen port is locked by the process that chose it
until that process ends, however it ends.  The lock is the UDP port of the same number, which none
of the servers has a use for.
"""

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

_ours: set[int] = set()


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
    """`count` different ports, each free together with the one PAIR_DISTANCE above it.

    They are this process's until it ends.  A preferred one may have been so before: that is a
    second start on the ports of the first.
    """
    found: list[int] = []
    fresh = (port for port in random.sample(_CANDIDATES, len(_CANDIDATES)) if port not in _ours)
    for port in (*preferred, *fresh):
        if port not in found and is_free(port) and is_free(port + PAIR_DISTANCE) and _lock(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"fewer than {count} free ports in {_CANDIDATES}")


def _lock(port: int) -> bool:
    """Whether the port is this process's, now or from before."""
    if port in _ours:
        return True
    lock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        lock.bind((HOST, port))
    except OSError:
        lock.close()
        return False
    lock.detach()  # never closed, for that would unlock it
    _ours.add(port)
    return True
