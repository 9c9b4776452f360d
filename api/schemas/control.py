"""What may be asked of a batch that is there: a change, a retry, its deletion."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from api.schemas.given import Given
from api.schemas.sent import Metadata, Priority, Sent, Text, Window

_LAST_SECOND = 253_402_300_799  # of the year 9999


class BatchChange(Sent):
    """What is left out stays.  `metadata: null` takes all of it away."""

    priority: Priority | None = None
    paused: bool | None = None
    deadline: Annotated[int, Field(ge=0, le=_LAST_SECOND)] | None = None  # unix seconds
    completion_window: Window | None = None
    metadata: Metadata | None = None

    @model_validator(mode="after")
    def _one_deadline(self) -> "BatchChange":
        if self.deadline is not None and self.completion_window is not None:
            raise ValueError("Give 'deadline' or 'completion_window', not both")
        return self

    @property
    def new_metadata(self) -> dict[str, str] | None:
        """None leaves it as it is, an empty one takes it away."""
        return (self.metadata or {}) if "metadata" in self.model_fields_set else None


class BatchRetry(Sent):
    """What is left out is as it was in the batch that is retried."""

    completion_window: Window | None = None
    priority: Priority | None = None
    webhook_url: Text | None = None
    metadata: Metadata | None = None


class DeletedBatch(Given):
    id: str
    object: Literal["batch"] = "batch"
    deleted: Literal[True] = True
