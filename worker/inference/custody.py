"""How a held shard is let go: settled, lost, stopped, handed back or dropped.

Whatever the reason, the engine forgets its requests, the writer its rows, and the pump may claim
again.  What has finished is written first wherever the lease still allows it.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs import leases, metrics
from jobs.database import Sessions
from jobs.doorbell import CONTROL, Doorbell
from jobs.endings import Endings
from jobs.leases import ShardLease
from jobs.models import JobKind
from jobs.workers import Held
from worker.inference.engine_host import EngineHost
from worker.inference.held_shards import HeldShards
from worker.inference.result_writer import ResultWriter

log = logging.getLogger(__name__)

_DAMAGED_BACKOFF = timedelta(minutes=1)


class Custody:
    def __init__(
        self,
        sessions: Sessions,
        held: HeldShards,
        *,
        host: EngineHost,
        writer: ResultWriter,
        doorbell: Doorbell,
        endings: Endings,
    ) -> None:
        self._sessions = sessions
        self._held = held
        self._host = host
        self._writer = writer
        self._doorbell = doorbell
        self._endings = endings

    def settled(self, lease: ShardLease, job_is_ripe: bool) -> None:
        """Every row is written and the shard is done."""
        self._held.remove(lease.held)
        if lease.kind is JobKind.REQUEST:
            self._endings.tell(lease.job_id)  # its job has ended with it
        elif job_is_ripe:
            self._doorbell.ring(CONTROL)

    def lost(self, lease: ShardLease) -> None:
        """The lease has passed on: stop computing, write nothing."""
        self._drop(lease, "passed on")

    def _drop(self, lease: ShardLease, reason: str) -> None:
        # First, so that what its starter still submits is left out.
        if self._held.remove(lease.held):
            metrics.LEASES_LOST.labels(reason).inc()
        self._host.abort(lease.held)
        self._writer.drop(lease)

    def hand_back(self, lease: ShardLease, *, after: timedelta = timedelta()) -> None:
        """Give up a shard unfinished.  Its finished rows are written; a stopping job's shard ends
        as cancelled, another's is queued again, to be claimed `after` a while."""
        self._host.abort(lease.held)
        self._writer.flush_now(lease)
        self._held.remove(lease.held)  # what its starter submits from here on is left out
        self._host.abort(lease.held)  # and what it has submitted meanwhile is dropped
        self._writer.drop(lease)
        self.return_to_line(lease.held, lease.owner, after=after)

    def return_to_line(self, held: Held, owner: UUID, *, after: timedelta = timedelta()) -> None:
        """The hand-back itself: all there is to do for a shard that this process knows nothing of
        but the database's word."""
        self._give_up(partial(leases.hand_back, held=held, owner=owner, after=after))

    def set_aside(self, lease: ShardLease) -> None:
        """Give up a shard of which nothing was begun, for its input is damaged: it is tried again
        for an hour, and then is done without its results."""
        self._held.remove(lease.held)
        self._give_up(
            partial(leases.set_aside, held=lease.held, owner=lease.owner, after=_DAMAGED_BACKOFF)
        )

    def _give_up(self, write: Callable[..., bool]) -> None:
        try:
            with self._sessions.begin() as session:
                if not write(session):
                    metrics.LEASES_LOST.labels("passed on").inc()
        except SQLAlchemyError:
            log.warning("shard not handed back; a later beat or a rescue does it", exc_info=True)
        self._doorbell.ring(CONTROL)

    def drop_all(self) -> None:
        """The incarnation is over and all that it held is somebody else's."""
        for lease in self._held.all():
            self._drop(lease, "incarnation over")
