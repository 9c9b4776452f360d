"""The states and kinds that rows can have; docs/architecture.md draws how they follow."""

from enum import StrEnum


class JobKind(StrEnum):
    REQUEST = "request"
    BATCH = "batch"

    @property
    def noun(self) -> str:
        """What clients call such a job."""
        return "job" if self is JobKind.REQUEST else "batch"


class JobState(StrEnum):
    QUEUED = "queued"
    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    STOPPING = "stopping"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


TERMINAL_STATES = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED)


class OnInvalidLine(StrEnum):
    FAIL = "fail"
    SKIP = "skip"


class ShardState(StrEnum):
    QUEUED = "queued"
    LEASED = "leased"
    SUSPECT = "suspect"  # its worker died while it ran alone; the sweeper settles it
    DONE = "done"
    CANCELLED = "cancelled"
    SPLIT = "split"  # two shards over its halves stand in its place


class WorkerKind(StrEnum):
    CONTROL = "control"
    INFERENCE = "inference"


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class UploadState(StrEnum):
    PENDING = "pending"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
