"""Work under a lease on a job: claimed, done, and given up where it cannot be done."""

import logging
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from sqlalchemy.orm import Session

from jobs import job_leases, metrics
from jobs.database import Sessions
from jobs.errors import LeaseLost
from jobs.job_leases import JobLease
from worker.control.hands import Hands

log = logging.getLogger(__name__)

Lease = TypeVar("Lease", bound=JobLease)


class GivenUp(Exception):
    """One job's work failed, and the job waits to be tried again; there may be others to do."""


def do_next(
    sessions: Sessions,
    hands: Hands,
    *,
    claim: Callable[[Session, UUID], Lease | None],
    work: Callable[[Lease], None],
) -> bool:
    """Claim a job and do its work.  False if there is none to claim.  Raises GivenUp."""
    with sessions.begin() as session:
        lease = claim(session, hands.me)
    if lease is None:
        return False
    with hands.holding(lease.job_id, lease.attempt):
        do(sessions, lease, work)
    return True


def do(sessions: Sessions, lease: Lease, work: Callable[[Lease], None]) -> None:
    """Do the work, or give the job up: for good if the lease is lost, else for a while.

    Raises GivenUp in the latter case, from what the work raised.
    """
    try:
        work(lease)
    except LeaseLost as lost:
        metrics.LEASES_LOST.labels("passed on").inc()
        log.info("dropped: %s", lost)
    except Exception as error:
        with sessions.begin() as session:
            job_leases.release(session, lease)
        raise GivenUp(f"job {lease.job_id}, attempt {lease.attempt}: {error}") from error
