"""A file on local disk that gathers lines until they go to S3 as one object."""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType

from jobs.storage import Storage

_CHUNK = 2**20  # bytes read, and written, at once


class Spool(AbstractContextManager["Spool"]):
    """Counts and hashes what is written.  The file goes when the `with` ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="gristmill-")  # noqa: SIM115 - see __exit__
        self._sha256 = hashlib.sha256()
        self._held = bytearray()  # lines not yet written
        self.size = 0
        self.lines = 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def sha256(self) -> str:
        self._write()
        return self._sha256.hexdigest()

    def add(self, line: bytes) -> None:
        self._held += line
        self.size += len(line)
        self.lines += 1
        if len(self._held) >= _CHUNK:
            self._write()

    def upload(self, storage: Storage, key: str) -> None:
        storage.upload(key, self.chunks(0, self.size))

    def chunks(self, start: int, size: int) -> Iterator[bytes]:
        """The bytes [start, start + size); nothing may be added until all are read."""
        self._write()
        self._file.seek(start)
        while size > 0 and (chunk := self._file.read(min(size, _CHUNK))):
            size -= len(chunk)
            yield chunk

    def _write(self) -> None:
        # Many lines at once: a system call and a hash for each would cost more than the lines do.
        self._file.write(self._held)
        self._sha256.update(self._held)
        self._held.clear()
