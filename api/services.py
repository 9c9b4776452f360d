"""What every route may use, made once in `main` and closed with the process."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from anyio import CapacityLimiter

from api.settings import ApiSettings, LimitSettings
from api.waiting import JobWatch
from jobs import reading
from jobs.database import Sessions, connect, sessions_of
from jobs.doorbell import Doorbell
from jobs.secrets import Secrets
from jobs.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """`uploads` bounds the threads that uploads hold, so that slow clients leave some to others."""

    sessions: Sessions
    storage: Storage
    doorbell: Doorbell
    secrets: Secrets
    watch: JobWatch
    uploads: CapacityLimiter
    limits: LimitSettings
    allow_private_webhooks: bool


# Connections.  The routes run on 40 threads, few of which are inside a transaction at one time.
_POOL_SIZE = 16


def connect_services(settings: ApiSettings, *, stopping: Callable[[], bool]) -> Services:
    """Nothing is connected yet; `stopping` says when waiting requests are to be let go."""
    sessions = sessions_of(connect(settings.database.url.get_secret_value(), pool_size=_POOL_SIZE))

    def finished_among(job_ids: Collection[UUID]) -> set[UUID]:
        with sessions() as session:
            return reading.finished_among(session, job_ids)

    return Services(
        sessions=sessions,
        storage=Storage(settings.storage),
        doorbell=Doorbell(settings.broker.url.get_secret_value()),
        secrets=Secrets(settings.secrets.key.get_secret_value()),
        watch=JobWatch(finished_among, stopping=stopping),
        uploads=CapacityLimiter(settings.limits.uploads_at_once),
        limits=settings.limits,
        allow_private_webhooks=settings.webhooks.allow_private,
    )
