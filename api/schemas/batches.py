"""The Batch object, and the body that creates one."""

from typing import Any, Literal

from api.schemas.given import Given, Named, Queue, Usage, unix, unix_or_none
from api.schemas.sent import Endpoint, Expiry, Metadata, Priority, Sent, Text, Window
from jobs import ids
from jobs.models import Job, JobState
from jobs.reading import Counts, JobView

Status = Literal[
    "validating",
    "in_progress",
    "finalizing",
    "completed",
    "failed",
    "expired",
    "cancelling",
    "cancelled",
]


class BatchCreate(Sent):
    input_file_id: Text
    endpoint: Endpoint
    completion_window: Window
    metadata: Metadata | None = None
    output_expires_after: Expiry | None = None
    output_prefix: Text | None = None
    priority: Priority = "bulk"
    webhook_url: Text | None = None
    on_invalid_line: Literal["fail", "skip"] = "fail"
    reuse_from: Text | None = None


class RequestCounts(Given):
    total: int
    completed: int
    failed: int


class BatchErrors(Given):
    object: Literal["list"] = "list"
    data: list[dict[str, Any]]


class Prefix(Given):
    """What shared beginnings saved: `hit_rate` of all prompt tokens were not computed again."""

    hit_rate: float
    tokens_saved: int


class BatchObject(Named):
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None
    errors: BatchErrors | None
    input_file_id: str
    completion_window: str
    status: Status
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    usage: Usage
    metadata: dict[str, str] | None
    priority: Priority
    webhook_url: str | None
    on_invalid_line: Literal["fail", "skip"]
    output_prefix: str | None
    paused: bool
    retry_of: str | None
    reuse_from: str | None
    queue: Queue | None
    progress: float
    prefix: Prefix

    @classmethod
    def of(cls, view: JobView) -> "BatchObject":
        return cls.model_validate(_of_row(view.job) | _of_counts(view), from_attributes=True)


def _of_row(job: Job) -> dict[str, object]:
    return {
        "id": ids.public(ids.JOB_PREFIX[job.kind], job.id),
        "endpoint": job.endpoint,
        "model": job.model,
        "errors": None if job.errors is None else {"data": job.errors},
        "input_file_id": job.input_file_id and ids.public(ids.FILE, job.input_file_id),
        "completion_window": job.completion_window,
        "status": status_of(job),
        "output_file_id": job.output_file_id and ids.public(ids.FILE, job.output_file_id),
        "error_file_id": job.error_file_id and ids.public(ids.FILE, job.error_file_id),
        "metadata": job.metadata_,
        "priority": "interactive" if job.interactive else "bulk",
        "webhook_url": job.webhook_url,
        "on_invalid_line": job.on_invalid_line.value,
        "output_prefix": job.output_prefix,
        "paused": job.paused,
        "retry_of": job.retry_of and ids.public(ids.JOB_PREFIX[job.kind], job.retry_of),
        "reuse_from": job.reuse_from and ids.public(ids.JOB_PREFIX[job.kind], job.reuse_from),
        **_times(job),
    }


def _times(job: Job) -> dict[str, int | None]:
    ended = unix_or_none(job.finished_at)
    return {
        "created_at": unix(job.created_at),
        "in_progress_at": unix_or_none(job.in_progress_at),
        "expires_at": unix(job.expires_at),
        "finalizing_at": unix_or_none(job.finalizing_at),
        "cancelling_at": unix_or_none(job.cancelling_at),
        **{
            f"{state}_at": ended if job.state is state else None
            for state in (
                JobState.COMPLETED,
                JobState.FAILED,
                JobState.EXPIRED,
                JobState.CANCELLED,
            )
        },
    }


def status_of(job: Job) -> str:
    """A client sees why a job is stopping, not how."""
    match job.state:
        case JobState.QUEUED | JobState.VALIDATING:
            return "validating"
        case JobState.STOPPING | JobState.FINALIZING:
            return "cancelling" if job.ends_as is JobState.CANCELLED else "finalizing"
        case state:
            return state.value


def _of_counts(view: JobView) -> dict[str, object]:
    counts, total = view.counts, view.job.total
    done = counts.completed + counts.failed
    return {
        "request_counts": RequestCounts(
            total=total, completed=counts.completed, failed=counts.failed
        ),
        "usage": Usage.of(counts),
        "queue": view.queue,
        "progress": round(min(1.0, done / total), 4) if total else 0.0,
        "prefix": _prefix(counts),
    }


def _prefix(counts: Counts) -> Prefix:
    rate = counts.cached_tokens / counts.input_tokens if counts.input_tokens else 0.0
    return Prefix(hit_rate=round(rate, 4), tokens_saved=counts.cached_tokens)
