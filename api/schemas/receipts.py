"""The Receipt object; `gristmill verify` reads it."""

from typing import Literal

from api.schemas.batches import RequestCounts, status_of
from api.schemas.given import Given, unix
from jobs import ids
from jobs.models import File
from jobs.receipts import Receipt


class FileReceipt(Given):
    file_id: str
    bytes: int
    sha256: str
    lines: int

    @classmethod
    def of(cls, file: File) -> "FileReceipt":
        return cls(
            file_id=ids.public(ids.FILE, file.id),
            bytes=file.bytes,
            sha256=file.sha256,
            lines=file.lines,
        )


class CustomIds(Given):
    """`each_once`: no custom_id stands twice in the output and error file together."""

    lines: int
    each_once: bool


class ReceiptObject(Given):
    object: Literal["batch.receipt"] = "batch.receipt"
    batch_id: str
    retry_of: str | None
    status: str
    endpoint: str
    model: str | None
    created_at: int
    finished_at: int
    input: FileReceipt
    output: FileReceipt | None
    error: FileReceipt | None
    request_counts: RequestCounts
    never_ran: int
    custom_ids: CustomIds

    @classmethod
    def of(cls, receipt: Receipt) -> "ReceiptObject":
        job, written = receipt.job, receipt.lines_written
        prefix = ids.JOB_PREFIX[job.kind]
        assert job.finished_at is not None
        return cls(
            batch_id=ids.public(prefix, job.id),
            retry_of=None if job.retry_of is None else ids.public(prefix, job.retry_of),
            status=status_of(job),
            endpoint=job.endpoint,
            model=job.model,
            created_at=unix(job.created_at),
            finished_at=unix(job.finished_at),
            input=FileReceipt.of(receipt.input),
            output=receipt.output and FileReceipt.of(receipt.output),
            error=receipt.errors and FileReceipt.of(receipt.errors),
            request_counts=RequestCounts(
                total=job.total, completed=job.completed, failed=job.failed
            ),
            never_ran=job.total - job.completed - job.failed,
            custom_ids=CustomIds(lines=written, each_once=written == job.total),
        )
