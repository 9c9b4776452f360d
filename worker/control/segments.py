"""Lines that planning itself answers, on their way into segments: invalid ones and reused ones.

They gather on disk; memory holds 13 bytes of each, for a million of them as objects would take
hundreds of megabytes.
"""

import hashlib
from array import array
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate
from types import TracebackType
from typing import Self

from jobs.results import Row, SegmentDraft
from jobs.storage import Storage
from worker.control.spool import Spool

MOST_LINES = 20_000  # of one segment: as many rows as one statement inserts


@dataclass(frozen=True, slots=True)
class PackedSegment:
    """A segment whose object is in S3, and what its rows are made from when they are needed."""

    storage_key: str
    bytes: int
    sha256: str
    indexes: "array[int]"
    lengths: "array[int]"
    ok: bool

    def draft(self) -> SegmentDraft:
        """The last line first: of two that a row has, only the one that is put first will count."""
        starts = accumulate(self.lengths, initial=0)
        rows = [
            Row(index, self.ok, start, length)
            for index, start, length in zip(self.indexes, starts, self.lengths, strict=False)
        ]
        return SegmentDraft(self.storage_key, self.bytes, self.sha256, rows[::-1])


class SegmentWriter(AbstractContextManager["SegmentWriter"]):
    """Lines that are all good, or all errors.  What was spooled goes when the `with` ends."""

    def __init__(self, *, ok: bool) -> None:
        self._ok = ok
        self._spool = Spool()
        self._indexes = array("i")
        self._lengths = array("i")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._spool.__exit__(kind, error, trace)

    def add(self, index: int, line: bytes) -> None:
        """A line for a row that has one already takes its place."""
        self._indexes.append(index)
        self._lengths.append(len(line))
        self._spool.add(line)

    def write(self, storage: Storage, prefix: str) -> list[PackedSegment]:
        """Upload what was added, as objects whose keys begin with `prefix`.

        The last added come first, and must be put so.
        """
        written = [self._write(storage, prefix, run) for run in self._runs()]
        return written[::-1]

    def _runs(self) -> Iterator[slice]:
        for first in range(0, len(self._indexes), MOST_LINES):
            yield slice(first, first + MOST_LINES)

    def _write(self, storage: Storage, prefix: str, run: slice) -> PackedSegment:
        start, size = sum(self._lengths[: run.start]), sum(self._lengths[run])
        sha256 = hashlib.sha256()

        def hashed() -> Iterator[bytes]:
            for chunk in self._spool.chunks(start, size):
                sha256.update(chunk)
                yield chunk

        key = f"{prefix}-{run.start}.jsonl"
        storage.upload(key, hashed())
        indexes, lengths = self._indexes[run], self._lengths[run]
        return PackedSegment(key, size, sha256.hexdigest(), indexes, lengths, self._ok)
