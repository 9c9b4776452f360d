"""The receipt of an ended batch: the files that went in and came out, and how they add up.

Nothing is counted here.  The finalizer held the files against the result rows before the batch
could end, and the planner refused every custom_id that stands twice.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.errors import NotAllowedNow, NotFound
from jobs.models import File, Job, JobKind


@dataclass(frozen=True, slots=True)
class Receipt:
    """`output` and `errors` are None where nothing was written."""

    job: Job
    input: File
    output: File | None
    errors: File | None

    @property
    def lines_written(self) -> int:
        return sum(file.lines for file in (self.output, self.errors) if file is not None)


def read(session: Session, *, tenant_id: UUID, job_id: UUID) -> Receipt:
    """Raises NotFound, or NotAllowedNow while the batch has not ended."""
    job = session.scalar(
        select(Job).where(
            Job.id == job_id,
            Job.tenant_id == tenant_id,
            Job.kind == JobKind.BATCH,
            Job.deleted_at.is_(None),
        )
    )
    if job is None:
        raise NotFound("There is no batch with this id.")
    if job.finished_at is None:
        raise NotAllowedNow("The batch has not ended; only then is there a receipt.")
    read_file = session.get(File, job.input_file_id)
    assert read_file is not None  # by the foreign key: files keep their rows
    return Receipt(
        job, read_file, _file(session, job.output_file_id), _file(session, job.error_file_id)
    )


def _file(session: Session, file_id: UUID | None) -> File | None:
    return None if file_id is None else session.get(File, file_id)
