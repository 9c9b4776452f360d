"""What a process listens on, as the kernel tells it."""

import os
from pathlib import Path

_LISTEN = "0A"
_LOOPBACK = "0100007F"  # 127.0.0.1 in the kernel's byte order


def listening_addresses(pid: int) -> set[tuple[str, int]]:
    """(hex address, port) of every TCP socket on which `pid` takes connections."""
    inodes = _sockets_of(pid)
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and fields[9] in inodes:
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found


def only_loopback(pid: int) -> bool:
    addresses = listening_addresses(pid)
    return bool(addresses) and {address for address, _ in addresses} == {_LOOPBACK}


def _sockets_of(pid: int) -> set[str]:
    links = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(descriptor)
        if target.startswith("socket:["):
            links.add(target.removeprefix("socket:[").removesuffix("]"))
    return links
