"""What the finalizer reads: a batch's rows in input order, a window at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.database import Sessions

WINDOW_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class FinalRow:
    """One request and where its line lies.  `segment_id` is None where it never ran."""

    index: int
    custom_id: str | None
    segment_id: int | None
    storage_key: str
    ok: bool
    start: int
    length: int


# A keyset cursor: each window is a short transaction, whatever the file's size.
_WINDOW = text("""
    SELECT q.index AS at, q.custom_id, r.segment_id, r.ok, r.start, r.length, s.storage_key
      FROM requests q
      LEFT JOIN results r ON r.job_id = q.job_id AND r.index = q.index
      LEFT JOIN segments s ON s.id = r.segment_id
     WHERE q.job_id = :job_id AND q.index > :after
     ORDER BY q.index LIMIT :limit
""")


def windows(sessions: Sessions, job_id: UUID) -> Iterator[list[FinalRow]]:
    after = -1
    while True:
        with sessions() as session:
            rows = _window(session, job_id, after)
        if not rows:
            return
        yield rows
        after = rows[-1].index


def _window(session: Session, job_id: UUID, after: int) -> list[FinalRow]:
    values = {"job_id": job_id, "after": after, "limit": WINDOW_ROWS}
    return [
        FinalRow(
            row.at, row.custom_id, row.segment_id, row.storage_key, row.ok, row.start, row.length
        )
        for row in session.execute(_WINDOW, values)
    ]
