"""The tables: what a job is, where its rows stand, and who works on them.

`requests`, `segments` and `results` are append-only; `shards` and `jobs` are the small tables that
change.  The laws of state stand here as CHECK constraints, and each hot query has its index.
The states of a job and of a shard are drawn in docs/architecture.md.
"""

from jobs.models.accounts import ApiKey, IdempotencyKey, Model, RateBucket, Tenant, Turn
from jobs.models.base import Base
from jobs.models.deliveries import Delivery, Event
from jobs.models.drops import Drop, DropObject
from jobs.models.files import File
from jobs.models.jobs import Job, Request
from jobs.models.results import Result, Segment
from jobs.models.shards import FairQueue, FairShare, Shard
from jobs.models.states import (
    TERMINAL_STATES,
    DeliveryState,
    JobKind,
    JobState,
    OnInvalidLine,
    ShardState,
    UploadState,
    WorkerKind,
)
from jobs.models.uploads import Upload, UploadPart
from jobs.models.webhooks import WebhookEndpoint, WebhookTarget
from jobs.models.workers import RollCall, Worker

__all__ = [
    "TERMINAL_STATES",
    "ApiKey",
    "Base",
    "Delivery",
    "DeliveryState",
    "Drop",
    "DropObject",
    "Event",
    "FairQueue",
    "FairShare",
    "File",
    "IdempotencyKey",
    "Job",
    "JobKind",
    "JobState",
    "Model",
    "OnInvalidLine",
    "RateBucket",
    "Request",
    "Result",
    "RollCall",
    "Segment",
    "Shard",
    "ShardState",
    "Tenant",
    "Turn",
    "Upload",
    "UploadPart",
    "UploadState",
    "WebhookEndpoint",
    "WebhookTarget",
    "Worker",
    "WorkerKind",
]
