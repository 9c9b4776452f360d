"""What may be deleted from our bucket because no answer will ever need it again.

The objects go first and the rows say so afterwards, so that nothing is forgotten, not even what the
store keeps all the same; deleting an object twice harms nobody, and so do two control processes at
once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, func, text, update
from sqlalchemy.orm import Session

from jobs.models import File, UploadPart

# Longer than any transaction that may have found a file before it expired, and be about to
# commit a batch that reads it.
_GRACE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Garbage:
    """An object, and the row that says where it is."""

    row_id: UUID
    storage_key: str


_FILES = text("""
    SELECT id, storage_key FROM files f
     WHERE collected_at IS NULL AND bucket IS NULL
       AND LEAST(deleted_at, expires_at) < now() - :grace
       AND NOT EXISTS (
           SELECT 1 FROM jobs
            WHERE input_file_id = f.id
              AND state NOT IN ('completed', 'failed', 'cancelled', 'expired'))
     ORDER BY LEAST(deleted_at, expires_at), id LIMIT :limit OFFSET :skip
""")

_EXPIRE_UPLOADS = text("""
    UPDATE uploads SET state = 'expired' WHERE state = 'pending' AND expires_at <= now()
""")

# A part that clients put by themselves may still come as long as its link is good.
_PARTS = text("""
    SELECT p.id, p.storage_key FROM upload_parts p JOIN uploads u ON u.id = p.upload_id
     WHERE u.state <> 'pending' AND (NOT p.presigned OR u.expires_at < now())
     ORDER BY p.id LIMIT :limit OFFSET :skip
""")


def files(session: Session, *, limit: int, skip: int) -> list[Garbage]:
    """Files that are deleted or expired and that no batch still reads, oldest first."""
    values = {"grace": _GRACE, "limit": limit, "skip": skip}
    return [Garbage(*row) for row in session.execute(_FILES, values)]


def forget_files(session: Session, row_ids: Sequence[UUID]) -> None:
    """Their objects are gone.  The rows stay: batches name them."""
    gone = update(File).where(File.id.in_(row_ids))
    session.execute(gone.values(collected_at=func.now()))


def expire_uploads(session: Session) -> None:
    session.execute(_EXPIRE_UPLOADS)


def parts(session: Session, *, limit: int, skip: int) -> list[Garbage]:
    """Parts of uploads that have ended."""
    return [Garbage(*row) for row in session.execute(_PARTS, {"limit": limit, "skip": skip})]


def forget_parts(session: Session, row_ids: Sequence[UUID]) -> None:
    session.execute(delete(UploadPart).where(UploadPart.id.in_(row_ids)))
