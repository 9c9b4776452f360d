"""A file on local disk that gathers lines until they go to S3 as one object."""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from jobs.results import Row, SegmentDraft
from jobs.storage import Storage

_READ_SIZE = 2**20


class Spool(AbstractContextManager["Spool"]):
    """Counts and hashes what is written.  The file goes when the `with` ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="gristmill-")  # noqa: SIM115 - see __exit__
        self._sha256 = hashlib.sha256()
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
        return self._sha256.hexdigest()

    def add(self, line: bytes) -> None:
        self._file.write(line)
        self._sha256.update(line)
        self.size += len(line)
        self.lines += 1

    def upload(self, storage: Storage, key: str) -> None:
        storage.upload(key, self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        self._file.seek(0)
        while chunk := self._file.read(_READ_SIZE):
            yield chunk


class SegmentWriter(AbstractContextManager["SegmentWriter"]):
    """A spool that notes where each line lies, to become a segment."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._rows = dict[int, Row]()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._spool.__exit__(kind, error, trace)

    def add(self, index: int, line: bytes, *, ok: bool) -> None:
        """A line for a row that has one already takes its place."""
        self._rows[index] = Row(index, ok, self._spool.size, len(line))
        self._spool.add(line)

    def write(self, storage: Storage, key: str) -> SegmentDraft | None:
        """Upload what was added; None if nothing was."""
        if not self._rows:
            return None
        self._spool.upload(storage, key)
        rows = list(self._rows.values())
        return SegmentDraft(key, self._spool.size, self._spool.sha256, rows)
