"""Which custom_ids stand where, for files of any size: each is put in one of many small heaps on
disk, so that memory holds one heap at a time.
"""

import hashlib
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, NamedTuple, Self

_HEAPS = 64  # of a million ids, 16 thousand each
_ENTRY = struct.Struct("<16scq")
_ENTRIES_A_READ = 4096


class Stand(NamedTuple):
    """Line `number`, from 1, of the file that `file` stands for in one letter."""

    file: str
    number: int


class IdLedger(ExitStack):
    """Holds open files; they go when the `with` ends."""

    def __init__(self) -> None:
        super().__init__()
        self._heaps = list[IO[bytes]]()

    def __enter__(self) -> Self:
        super().__enter__()
        for _ in range(_HEAPS):
            self._heaps.append(self.enter_context(tempfile.TemporaryFile(prefix="gristmill-")))
        return self

    def add(self, custom_id: str, stand: Stand) -> None:
        digest = hashlib.blake2b(custom_id.encode(), digest_size=16).digest()
        heap = self._heaps[digest[0] % _HEAPS]
        heap.write(_ENTRY.pack(digest, stand.file.encode(), stand.number))

    def stands(self) -> Iterator[list[Stand]]:
        """For each custom_id, where it stands, in the order in which that was added."""
        for heap in self._heaps:
            found = dict[bytes, list[Stand]]()
            heap.seek(0)
            while read := heap.read(_ENTRY.size * _ENTRIES_A_READ):
                for digest, file, number in _ENTRY.iter_unpack(read):
                    found.setdefault(digest, []).append(Stand(file.decode(), number))
            yield from found.values()
