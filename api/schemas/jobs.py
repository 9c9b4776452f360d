"""The Job object: one request, and the body that creates one."""

from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from api.schemas.given import Given, Named, Queue, Usage, unix, unix_or_none
from api.schemas.sent import Endpoint, Metadata, Priority, Sent, Text
from jobs import ids
from jobs.models import TERMINAL_STATES, Job, JobState
from jobs.reading import JobView

Status = Literal["queued", "in_progress", "completed", "failed", "cancelled", "expired"]

_DAY = 24 * 3600


class JobCreate(Sent):
    model: Annotated[Text, Field(min_length=1)]
    endpoint: Endpoint
    body: dict[str, Any]
    priority: Priority = "bulk"
    webhook_url: Text | None = None
    metadata: Metadata | None = None
    expires_in: Annotated[int, Field(ge=1, le=30 * _DAY)] = _DAY  # seconds


class JobResponse(Given):
    status_code: int
    request_id: str
    body: dict[str, Any]


class JobError(Given):
    code: str
    message: str


# Of jobs that ended before they ran; what became of the others is in their result.
_NEVER_RAN = {
    JobState.CANCELLED: JobError(
        code="job_cancelled", message="The job was cancelled before it was finished."
    ),
    JobState.EXPIRED: JobError(
        code="job_expired", message="The job's time was over before it was finished."
    ),
}
_LOST = JobError(
    code="result_lost",
    message="The object store has lost this job's result. Send the request again.",
)


class JobObject(Named):
    """In a list, `queue`, `response` and a result's `error` are null: they are a single job's."""

    object: Literal["job"] = "job"
    status: Status
    model: str
    endpoint: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    expires_at: int
    queue: Queue | None
    response: JobResponse | None
    error: JobError | None
    usage: Usage
    metadata: dict[str, str] | None
    priority: Priority
    webhook_url: str | None

    @classmethod
    def of(cls, view: JobView, *, result_line: bytes | None = None) -> "JobObject":
        """`result_line` is what the job's one request came to, as it lies in its segment."""
        line = {} if result_line is None else orjson.loads(result_line)
        fields = _of_row(view.job) | {
            "status": _status(view),
            "started_at": None if view.waiting else unix_or_none(view.job.in_progress_at),
            "queue": view.queue,
            "response": line.get("response"),
            "error": line.get("error") or _NEVER_RAN.get(view.job.state),
            "usage": Usage.of(view.counts),
        }
        return cls.model_validate(fields, from_attributes=True)

    def without_result(self) -> "JobObject":
        return self.model_copy(update={"response": None, "error": _LOST})


def _of_row(job: Job) -> dict[str, object]:
    return {
        "id": ids.public(ids.JOB_PREFIX[job.kind], job.id),
        "model": job.model,
        "endpoint": job.endpoint,
        "created_at": unix(job.created_at),
        "finished_at": unix_or_none(job.finished_at),
        "expires_at": unix(job.expires_at),
        "metadata": job.metadata_,
        "priority": "interactive" if job.interactive else "bulk",
        "webhook_url": job.webhook_url,
    }


def _status(view: JobView) -> str:
    """A request's job is in progress from the start; it is queued for its client until claimed."""
    if view.job.state in TERMINAL_STATES:
        return view.job.state.value
    return "queued" if view.waiting else "in_progress"
