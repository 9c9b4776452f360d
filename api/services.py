"""What every route may use, made once in `main` and closed with the process."""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from api.bells import Bells
from api.known_keys import KnownKeys
from api.settings import ApiSettings, LimitSettings
from api.slots import Slots
from api.waiting import JobWatch
from jobs import keys, reading
from jobs.database import Sessions, connect, sessions_of
from jobs.doorbell import Doorbell
from jobs.endings import Endings
from jobs.keys import Caller
from jobs.secrets import Secrets
from jobs.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    sessions: Sessions
    storage: Storage
    doorbell: Bells
    keys: KnownKeys
    secrets: Secrets
    watch: JobWatch
    uploads: Slots
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
    bells = Bells(doorbell.ring)

    def authenticate(key: str) -> Caller:
        with sessions.begin() as session:
            return keys.authenticate(session, key)

    def finished_among(job_ids: Collection[UUID]) -> set[UUID]:
        with sessions() as session:
            return reading.finished_among(session, job_ids)

    watch = JobWatch(finished_among, stopping=stopping)
    with _heard(settings.broker.url.get_secret_value(), watch):
        yield Services(
            sessions=sessions,
            storage=Storage(settings.storage),
            doorbell=bells,
            keys=KnownKeys(authenticate, remember_for=settings.limits.keys_remembered),
            secrets=Secrets(*settings.secrets.both),
            watch=watch,
            uploads=Slots(settings.limits.uploads_at_once),
            limits=settings.limits,
            allow_private_webhooks=settings.webhooks.allow_private,
        )
    bells.close()
    doorbell.close()
    engine.dispose()


@contextmanager
def _heard(broker_url: str, watch: JobWatch) -> Iterator[None]:
    """While the `with` lasts, a thread tells `watch` which jobs have ended."""
    endings, stopping = Endings(broker_url), threading.Event()
    thread = threading.Thread(
        target=partial(endings.listen, watch.hear, stopping=stopping), name="endings", daemon=True
    )
    thread.start()
    yield
    stopping.set()
    thread.join()
    endings.close()
