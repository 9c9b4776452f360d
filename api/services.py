"""What every route may use, made once in `main` and closed with the process."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
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


@contextmanager
def connected(settings: ApiSettings, *, stopping: Callable[[], bool]) -> Iterator[Services]:
    """Nothing is connected yet; `stopping` says when waiting requests are to be let go."""
    engine = connect(settings.database.url.get_secret_value(), pool_size=_POOL_SIZE)
    sessions = sessions_of(engine)
    doorbell = Doorbell(settings.broker.url.get_secret_value())

    def finished_among(job_ids: Collection[UUID]) -> set[UUID]:
        with sessions() as session:
            return reading.finished_among(session, job_ids)

    yield Services(
        sessions=sessions,
        storage=Storage(settings.storage),
        doorbell=doorbell,
        secrets=Secrets(settings.secrets.key.get_secret_value()),
        watch=JobWatch(finished_among, stopping=stopping),
        uploads=CapacityLimiter(settings.limits.uploads_at_once),
        limits=settings.limits,
        allow_private_webhooks=settings.webhooks.allow_private,
    )
    doorbell.close()
    engine.dispose()
