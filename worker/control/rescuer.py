"""The loop that gives back what the dead held.

It talks to Postgres alone and does nothing else, so that neither S3 nor a slow duty of the sweeper
delays it: the roll that it calls tells a dead worker from a database that was away.
"""

import logging
from datetime import timedelta

from sqlalchemy.exc import SQLAlchemyError

from jobs import metrics, rescue
from jobs.database import Sessions
from worker.failures import log_failure

log = logging.getLogger(__name__)

_BACKOFF = timedelta(seconds=1)  # before a rescued shard or job is claimed again


class Rescuer:
    """One of several, in every control process; they do not need each other."""

    def __init__(self, sessions: Sessions, *, ttl: timedelta) -> None:
        self._sessions = sessions
        self._ttl = ttl

    def rescue(self) -> None:
        """One look.  What fails is done by the next one, or by another process."""
        try:
            self._rescue_shards()
            self._release()
        except SQLAlchemyError as error:
            log_failure(log, "the dead were not looked for; the next round does it", error)

    def _rescue_shards(self) -> None:
        with self._sessions.begin() as session:
            rescued = rescue.rescue_shards(
                session, ttl=self._ttl, silence=self._ttl / 2, backoff=_BACKOFF
            )
        metrics.RESCUED.labels("dead").inc(rescued.died)
        metrics.RESCUED.labels("spared").inc(rescued.spared)
        if rescued.died or rescued.spared:
            log.warning(
                "shards of silent workers rescued",
                extra={"died": rescued.died, "spared": rescued.spared},
            )

    def _release(self) -> None:
        with self._sessions.begin() as session:
            rescue.release_jobs(session, backoff=_BACKOFF)
            rescue.release_deliveries(session)
