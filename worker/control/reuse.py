"""Takes results of an earlier batch for equal rows of a new one, so that those never run.

The lines are copied into segments of the new batch, under its own request ids: what it needs is its
own, and the earlier batch may be deleted.  Memory holds a window, and 16 bytes for each row taken.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import orjson

from jobs import earlier, ids
from jobs.database import Sessions
from jobs.earlier import EqualResult
from jobs.planning import PlanLease
from jobs.results import Row, SegmentDraft
from jobs.storage import Storage
from worker.control.spool import SegmentWriter


@dataclass(frozen=True, slots=True)
class _Taken:
    """A segment's draft, packed: a million rows as objects would take hundreds of megabytes."""

    storage_key: str
    bytes: int
    sha256: str
    indexes: "array[int]"
    starts: "array[int]"
    lengths: "array[int]"

    @classmethod
    def of(cls, draft: SegmentDraft) -> "_Taken":
        return cls(
            draft.storage_key,
            draft.bytes,
            draft.sha256,
            array("i", (row.index for row in draft.rows)),
            array("q", (row.start for row in draft.rows)),
            array("i", (row.length for row in draft.rows)),
        )

    def draft(self) -> SegmentDraft:
        places = zip(self.indexes, self.starts, self.lengths, strict=True)
        rows = [Row(index, True, start, length) for index, start, length in places]
        return SegmentDraft(self.storage_key, self.bytes, self.sha256, rows)


class Reuse:
    def __init__(self, sessions: Sessions, storage: Storage, lease: PlanLease) -> None:
        self._sessions = sessions
        self._storage = storage
        self._lease = lease
        self._taken = list[_Taken]()

    def take(self, first: int, last: int) -> set[int]:
        """Copy what there is for the loaded rows from `first` to `last`; returns which rows."""
        lease = self._lease
        if lease.reuse_from is None:
            return set()
        with self._sessions() as session:
            equal = earlier.equal_results(
                session, lease.job_id, lease.reuse_from, first=first, last=last
            )
        with SegmentWriter() as segment:
            self._copy(equal, segment)
            key = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/out/reused-{lease.attempt}-{first}"
            draft = segment.write(self._storage, f"{key}.jsonl")
        if draft is not None:
            self._taken.append(_Taken.of(draft))
        return {result.index for result in equal}

    def segments(self) -> Iterator[SegmentDraft]:
        """All that was taken, one segment for each call of `take` that found something."""
        return (taken.draft() for taken in self._taken)

    def _copy(self, equal: Iterable[EqualResult], segment: SegmentWriter) -> None:
        for key, results in groupby(equal, key=attrgetter("storage_key")):
            content = self._storage.read(key)
            for result in results:
                line = content[result.start : result.start + result.length]
                segment.add(result.index, self._renamed(line, result.index), ok=True)

    def _renamed(self, line: bytes, index: int) -> bytes:
        answer = orjson.loads(line)
        answer["id"] = answer["response"]["request_id"] = ids.of_request(self._lease.job_id, index)
        return orjson.dumps(answer) + b"\n"
