"""Takes results of an earlier batch for equal rows of a new one, so that those never run.

The lines are copied into segments of the new batch, under its own request ids: what it needs is its
own, and the earlier batch may be deleted.  What cannot be read of it is not taken, and runs.
"""

import logging
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

import orjson

from jobs import earlier, ids
from jobs.database import Sessions
from jobs.earlier import EqualResult
from jobs.errors import SegmentDamaged
from jobs.planning import PlanLease
from jobs.segment_objects import checked_line, read_whole
from jobs.storage import Storage
from worker.control.segments import PackedSegment, SegmentWriter

log = logging.getLogger(__name__)


class Reuse:
    def __init__(self, sessions: Sessions, storage: Storage, lease: PlanLease) -> None:
        self._sessions = sessions
        self._storage = storage
        self._lease = lease
        self._taken = list[PackedSegment]()

    def take(self, first: int, last: int) -> set[int]:
        """Copy what there is for the loaded rows from `first` to `last`; returns which rows."""
        lease = self._lease
        if lease.reuse_from is None:
            return set()
        with self._sessions() as session:
            equal = earlier.equal_results(
                session, lease.job_id, lease.reuse_from, first=first, last=last
            )
        with SegmentWriter(ok=True) as segment:
            taken = self._copy(equal, segment)
            key = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/out/reused-{lease.attempt}-{first}"
            self._taken += segment.write(self._storage, key)
        return taken

    def segments(self) -> list[PackedSegment]:
        """All that was taken."""
        return self._taken

    def _copy(self, equal: Iterable[EqualResult], segment: SegmentWriter) -> set[int]:
        """Returns which rows were copied."""
        taken = set[int]()
        for earlier_segment, results in groupby(equal, key=attrgetter("segment")):
            try:
                content = read_whole(self._storage, earlier_segment)
            except SegmentDamaged as damage:
                log.warning("results not reused, their rows run again: %s", damage)
                continue
            for result in results:
                found = content[result.start : result.start + result.length]
                line = checked_line(found, result.length)
                segment.add(result.index, self._renamed(line, result.index))
                taken.add(result.index)
        return taken

    def _renamed(self, line: bytes, index: int) -> bytes:
        answer = orjson.loads(line)
        answer["id"] = answer["response"]["request_id"] = ids.of_request(self._lease.job_id, index)
        return orjson.dumps(answer) + b"\n"
