"""What the finalizer reads: a batch's rows in input order, a window at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.database import Sessions
from jobs.segment_objects import SegmentObject

WINDOW_ROWS = 20_000


@dataclass(slots=True)  # not frozen: to make it would cost three times as much
class FinalRow:
    """One request and where its line lies.  `segment_id` is None where it never ran, and only
    there `custom_id` is told."""

    index: int
    custom_id: str | None
    segment_id: int | None
    ok: bool
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Window:
    """`segments`: the objects of all segments that the rows name, by the segments' ids."""

    rows: list[FinalRow]
    segments: dict[int, SegmentObject]


# A keyset cursor: each window is a short transaction, whatever the file's size.
_ROWS = text("""
    SELECT q.index, CASE WHEN r.segment_id IS NULL THEN q.custom_id END, r.segment_id, r.ok,
           r.start, r.length
      FROM requests q
      LEFT JOIN results r ON r.job_id = q.job_id AND r.index = q.index
     WHERE q.job_id = :job_id AND q.index > :after
     ORDER BY q.index LIMIT :limit
""")

_SEGMENTS = text("SELECT id, storage_key, bytes, sha256 FROM segments WHERE id = ANY(:ids)")


def windows(sessions: Sessions, job_id: UUID) -> Iterator[Window]:
    after = -1
    while True:
        with sessions() as session:
            window = _window(session, job_id, after)
        if not window.rows:
            return
        after = window.rows[-1].index
        yield window


def _window(session: Session, job_id: UUID, after: int) -> Window:
    values = {"job_id": job_id, "after": after, "limit": WINDOW_ROWS}
    rows = [FinalRow(*row) for row in session.execute(_ROWS, values)]
    ids = {row.segment_id for row in rows if row.segment_id is not None}
    found = session.execute(_SEGMENTS, {"ids": sorted(ids)})
    return Window(rows, {row[0]: SegmentObject(*row[1:]) for row in found})
