"""The Quotas object (ours): what a tenant has, and what it may have."""

from typing import Literal

from api.schemas.given import Given
from jobs.quotas import Usage


class Quota(Given):
    """`limit` is null where there is none."""

    used: int
    limit: int | None


class QuotasObject(Given):
    object: Literal["quotas"] = "quotas"
    queued_requests: Quota
    queued_tokens: Quota
    active_batches: Quota
    storage_bytes: Quota
    requests_per_second: float | None

    @classmethod
    def of(cls, usage: Usage) -> "QuotasObject":
        limits, load = usage.limits, usage.load
        return cls(
            queued_requests=Quota(used=load.requests, limit=limits.queued_requests),
            queued_tokens=Quota(used=load.tokens, limit=limits.queued_tokens),
            active_batches=Quota(used=load.batches, limit=limits.active_batches),
            storage_bytes=Quota(used=usage.storage_bytes, limit=limits.storage_bytes),
            requests_per_second=limits.requests_per_second,
        )
