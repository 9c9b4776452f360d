"""The finished lines of a batch, readable while it runs, in the order of their commits.

A place is a byte of a segment.  Segments stand by the transaction that wrote them, and those of the
oldest transaction that still runs and of younger ones are not shown yet: whatever commits later
stands behind every place that was ever given out, so that a reader misses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import ids
from jobs.database import Sessions
from jobs.errors import NotFound, ObjectMissing, SegmentDamaged
from jobs.storage import Storage

MAX_LINES = 1000

# Bounds of one page, whatever its lines hold and however few a segment has.
_PAGE_BYTES = 8 * 2**20
_PAGE_SEGMENTS = 64
_READ_BYTES = 256 * 2**10


class Place(NamedTuple):
    """Where the next line begins.  The order of places is the order of the tuples."""

    written_by: int
    segment_id: int
    start: int


FIRST_PLACE = Place(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """`has_more`: there may be more at once.  `done`: there will never be more."""

    lines: list[bytes]
    next_place: Place
    has_more: bool
    done: bool


@dataclass(frozen=True, slots=True)
class _Segment:
    id: int
    written_by: int
    storage_key: str
    bytes: int


@dataclass(frozen=True, slots=True)
class _Line:
    place: Place
    index: int
    content: bytes


_ENDED = text("""
    SELECT finished_at IS NOT NULL FROM jobs
     WHERE id = :job_id AND tenant_id = :tenant_id AND kind = 'batch' AND deleted_at IS NULL
""")

# An ended job gets no more segments, so that its last ones wait for nobody's transaction.
_SEGMENTS = text("""
    SELECT id, written_by, storage_key, bytes FROM segments
     WHERE job_id = :job_id AND (written_by, id) >= (:written_by, :segment_id)
       AND (:ended OR written_by < pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
     ORDER BY written_by, id LIMIT :limit
""")

_NAMED = text("""
    SELECT segment_id, start FROM results WHERE job_id = :job_id AND index = ANY(:indexes)
""")


def read(
    sessions: Sessions, storage: Storage, *, tenant_id: UUID, job_id: UUID, place: Place, limit: int
) -> ResultsPage:
    """The next lines from `place` on.  No transaction is open while S3 is read.

    Raises NotFound, or SegmentDamaged.
    """
    with sessions() as session:
        ended = _has_ended(session, tenant_id, job_id)
        segments = _segments(session, job_id, place, ended=ended)
    lines, next_place = _lines(storage, segments, place, limit=limit)
    last = _behind(segments[-1]) if segments else place
    has_more = next_place < last or len(segments) == _PAGE_SEGMENTS
    with sessions() as session:
        named = _named(session, job_id, lines)
    return ResultsPage(named, next_place, has_more, done=ended and not has_more)


def _has_ended(session: Session, tenant_id: UUID, job_id: UUID) -> bool:
    """Asked before the segments are: what ends in between is not taken for complete."""
    ended = session.scalar(_ENDED, {"job_id": job_id, "tenant_id": tenant_id})
    if ended is None:
        raise NotFound("There is no batch with this id.")
    return bool(ended)


def _segments(session: Session, job_id: UUID, place: Place, *, ended: bool) -> list[_Segment]:
    values = {"job_id": job_id, "ended": ended, "limit": _PAGE_SEGMENTS}
    at = {"written_by": place.written_by, "segment_id": place.segment_id}
    return [_Segment(*row) for row in session.execute(_SEGMENTS, values | at)]


def _lines(
    storage: Storage, segments: Sequence[_Segment], place: Place, *, limit: int
) -> tuple[list[_Line], Place]:
    found, size = list[_Line](), 0
    for segment in segments:
        start = place.start if segment.id == place.segment_id else 0
        while start < segment.bytes:
            if len(found) >= limit or size >= _PAGE_BYTES:
                return found, Place(segment.written_by, segment.id, start)
            for content in _read(storage, segment, start)[: limit - len(found)]:
                line_place = Place(segment.written_by, segment.id, start)
                found.append(_Line(line_place, _index_of(content), content))
                length = len(content) + 1
                start, size = start + length, size + length
        place = _behind(segment)
    return found, place


def _read(storage: Storage, segment: _Segment, start: int) -> list[bytes]:
    """The whole lines of one range, which grows until it has one."""
    length, rest = _READ_BYTES, segment.bytes - start
    while True:
        try:
            data = storage.read_range(segment.storage_key, start, min(length, rest))
        except ObjectMissing as missing:
            raise SegmentDamaged(f"{segment.storage_key}: {missing}") from missing
        *lines, _ = data.split(b"\n")
        if lines:
            return lines
        if length >= rest:
            raise SegmentDamaged(f"{segment.storage_key}: its last line does not end")
        length *= 2


def _behind(segment: _Segment) -> Place:
    return Place(segment.written_by, segment.id + 1, 0)


def _index_of(line: bytes) -> int:
    try:
        return ids.index_of(orjson.loads(line)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise SegmentDamaged(f"what lies in a segment is no result: {line[:80]!r}") from error


def _named(session: Session, job_id: UUID, lines: Sequence[_Line]) -> list[bytes]:
    """The lines that result rows name.  A row that was finished twice has one."""
    rows = session.execute(_NAMED, {"job_id": job_id, "indexes": [line.index for line in lines]})
    named = {(row.segment_id, row.start) for row in rows}
    return [line.content for line in lines if line.place[1:] in named]
