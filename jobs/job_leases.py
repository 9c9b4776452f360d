"""The lease on a job, while it is planned or finalized: held by its owner's beat like a shard's.

A death says little of a job, for a process plans one, finalizes another and sends webhooks.  A job
that was held at SUSPICIOUS deaths is leased with care from then on: its process has no other job in
hand.  The deaths that follow are its own doing.
"""

from datetime import timedelta
from typing import Protocol
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import metrics
from jobs.errors import LeaseLost
from jobs.models import JobState

SUSPICIOUS = 2  # deaths

_BACKOFF = timedelta(seconds=3)  # times the attempt, up to MAX_BACKOFF
_MAX_BACKOFF = timedelta(minutes=2)


class JobLease(Protocol):
    @property
    def job_id(self) -> UUID: ...
    @property
    def owner(self) -> UUID: ...
    @property
    def attempt(self) -> int: ...


_HOLD = text("""
    SELECT 1 FROM jobs
     WHERE id = :job_id AND state = :state AND owner = :owner AND attempt = :attempt
       FOR UPDATE
""")

_RELEASE = text("""
    UPDATE jobs SET owner = NULL, not_before = now() + :backoff
     WHERE id = :job_id AND owner = :owner AND attempt = :attempt
""")


def hold(session: Session, lease: JobLease, state: JobState) -> None:
    """Lock the job's row to the end of the transaction.  Raises LeaseLost."""
    if session.execute(_HOLD, _fence(lease) | {"state": state}).first() is None:
        metrics.STALE_COMMITS.inc()
        raise LeaseLost(f"job {lease.job_id}, attempt {lease.attempt}: the lease passed on")


def release(session: Session, lease: JobLease) -> None:
    """Give the job up in its present state, to be tried again after a while by anyone."""
    backoff = min(_BACKOFF * lease.attempt, _MAX_BACKOFF)
    session.execute(_RELEASE, _fence(lease) | {"backoff": backoff})


def _fence(lease: JobLease) -> dict[str, object]:
    return {"job_id": lease.job_id, "owner": lease.owner, "attempt": lease.attempt}
