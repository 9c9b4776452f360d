"""What an operator sees: the queue, the workers and the batches of all tenants, at one instant.

Everything is counted from Postgres, by its clock, in one short read-only snapshot.  Every query is
bounded, so looking costs the same however long the queue is.
"""

from datetime import timedelta

from sqlalchemy import text

from jobs.database import Sessions
from jobs.overview.batches import list_batches, look_at_control
from jobs.overview.queues import count_queues
from jobs.overview.views import Overview
from jobs.overview.webhooks import list_failing
from jobs.overview.workers import list_workers

# A snapshot that is held for longer would pin the queue's dead rows.
_BOUNDS = text("SET LOCAL statement_timeout = '4s'")

_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}


def take(sessions: Sessions, *, beat_ttl: timedelta) -> Overview:
    """Look once.  `beat_ttl` is what the workers add to now() at each beat (LeaseSettings.ttl)."""
    with sessions() as session:
        session.connection(execution_options=_SNAPSHOT)
        session.execute(_BOUNDS)
        processes = list_workers(session, beat_ttl)
        return Overview(
            at=session.execute(text("SELECT now()")).scalar_one(),
            control=look_at_control(session),
            queues=tuple(count_queues(session, processes)),
            workers=tuple(processes),
            batches=tuple(list_batches(session)),
            webhooks=tuple(list_failing(session)),
        )
