"""Deletes an ended batch: at once for its owner, and bit by bit for the database and S3.

The batch and its files are gone for every question from the moment the deletion commits.  What they
held is then taken away in bounded steps, each of which may be repeated: objects first, for the rows
say where they lie.  The job's own row is emptied and stays for a month: a list that is being paged
through may have it as its cursor.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.errors import NotAllowedNow, NotFound
from jobs.models import TERMINAL_STATES

STEP_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class DeletedBatch:
    job_id: UUID
    tenant_id: UUID

    @property
    def folder(self) -> str:
        """Under this lies every object that any attempt at the batch has written."""
        return f"t/{self.tenant_id.hex}/b/{self.job_id.hex}/"


_LOCK = text("""
    SELECT state FROM jobs
     WHERE id = :job_id AND tenant_id = :tenant_id AND kind = 'batch' AND deleted_at IS NULL
       FOR UPDATE
""")

_READER = text("""
    SELECT id FROM jobs
     WHERE kind = 'batch' AND state IN ('queued', 'validating')
       AND tenant_id = :tenant_id AND :job_id IN (retry_of, reuse_from)
     LIMIT 1
""")

_MARK = text("UPDATE jobs SET deleted_at = now() WHERE id = :job_id")

_MARK_FILES = text("""
    UPDATE files SET deleted_at = now()
      FROM jobs j
     WHERE j.id = :job_id AND files.id IN (j.output_file_id, j.error_file_id)
       AND files.deleted_at IS NULL
""")

_NEXT = text("""
    SELECT id, tenant_id FROM jobs
     WHERE deleted_at IS NOT NULL AND purged_at IS NULL ORDER BY id LIMIT 1
""")

# One sweeper at a time takes a job apart; the others find it locked and leave it.
_HOLD = text("""
    SELECT 1 FROM jobs
     WHERE id = :job_id AND deleted_at IS NOT NULL AND purged_at IS NULL FOR UPDATE SKIP LOCKED
""")

# In this order, by what names what.  Each deletes a run of its primary key, never a scan.
_ROWS = [
    text(f"""
        WITH gone AS (
            DELETE FROM {table}
             WHERE job_id = :job_id
               AND index < (SELECT min(index) + :rows FROM {table} WHERE job_id = :job_id)
            RETURNING 1
        )
        SELECT 1 FROM gone LIMIT 1
    """)
    for table in ("results", "requests")
]

_SEGMENTS = text("""
    WITH gone AS (
        DELETE FROM segments
         WHERE id IN (SELECT id FROM segments WHERE job_id = :job_id LIMIT :rows)
        RETURNING 1
    )
    SELECT 1 FROM gone LIMIT 1
""")

_REST = [
    text("DELETE FROM shards WHERE job_id = :job_id"),
    text("""
        DELETE FROM deliveries
         WHERE event_id IN (SELECT id FROM events WHERE job_id = :job_id)
    """),
    text("DELETE FROM events WHERE job_id = :job_id"),
    text("""
        UPDATE jobs
           SET purged_at = now(), metadata = NULL, errors = NULL, webhook_url = NULL,
               output_prefix = NULL, output_file_id = NULL, error_file_id = NULL
         WHERE id = :job_id
    """),
]

_FORGET = text("""
    DELETE FROM jobs
     WHERE id IN (SELECT id FROM jobs WHERE purged_at < now() - interval '30 days' LIMIT 1000)
""")


def delete(session: Session, *, tenant_id: UUID, job_id: UUID) -> None:
    """Take an ended batch and its files from its owner's sight.

    Raises NotFound, or NotAllowedNow while it runs or another batch is still planned from it.
    """
    job = session.execute(_LOCK, {"job_id": job_id, "tenant_id": tenant_id}).one_or_none()
    if job is None:
        raise NotFound("There is no batch with this id.")
    if job.state not in TERMINAL_STATES:
        raise NotAllowedNow(f"This batch is {job.state}. Cancel it, and delete it once it ended.")
    reader = session.scalar(_READER, {"job_id": job_id, "tenant_id": tenant_id})
    if reader is not None:
        raise NotAllowedNow(f"batch_{reader.hex} still reads this batch. Delete it in a moment.")
    session.execute(_MARK_FILES, {"job_id": job_id})
    session.execute(_MARK, {"job_id": job_id})


def next_deleted(session: Session) -> DeletedBatch | None:
    row = session.execute(_NEXT).one_or_none()
    return None if row is None else DeletedBatch(*row)


def delete_rows(session: Session, job_id: UUID) -> None:
    """One bounded step; nothing where another sweeper is at it."""
    if session.execute(_HOLD, {"job_id": job_id}).first() is None:
        return
    for statement in (*_ROWS, _SEGMENTS):
        if session.execute(statement, {"job_id": job_id, "rows": STEP_ROWS}).first() is not None:
            return
    for statement in _REST:
        session.execute(statement, {"job_id": job_id})


def forget_purged(session: Session) -> None:
    """Delete the rows of batches that were taken apart a month ago, 1,000 at most."""
    session.execute(_FORGET)
