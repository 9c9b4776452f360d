"""Public names of rows: a prefix that says what it is, and the row's uuid in hex."""

from uuid import UUID

from jobs.models import JobKind

FILE = "file-"
UPLOAD = "upload_"
PART = "part_"
EVENT = "evt_"
DELIVERY = "whd_"
ENDPOINT = "whe_"
JOB_PREFIX = {JobKind.REQUEST: "job_", JobKind.BATCH: "batch_"}


def public(prefix: str, row_id: UUID) -> str:
    return prefix + row_id.hex


def parse(prefix: str, name: str) -> UUID | None:
    """The uuid behind a public name, or None if it is not one of ours."""
    body = name.removeprefix(prefix)
    if body == name or len(body) != 32 or not body.isascii():
        return None
    try:
        return UUID(hex=body)
    except ValueError:
        return None


def of_request(job_id: UUID, index: int) -> str:
    """The id of one request: the same from every run, so that two finalizations agree."""
    return f"batch_req_{job_id.hex}{index:08x}"


def index_of(request_id: str) -> int:
    """The index of the request that `of_request` named."""
    return int(request_id[-8:], 16)
