"""The pump: claims shards while the engine's forecast has room.

One thread, woken by a bell, by a shard's end and by the clock.  A solo shard, one that may kill its
worker, is started only when nothing else is held, and nothing is claimed beside it.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs import leases, metrics
from jobs.database import Sessions
from jobs.errors import InputDamaged, LeaseLost, StorageUnavailable
from jobs.leases import ShardLease
from worker.inference.custody import Custody
from worker.inference.held_shards import HeldShards
from worker.inference.shard_runner import ShardRunner
from worker.threads import Crew

log = logging.getLogger(__name__)

_LOOK_EVERY = 5.0  # seconds; a shard that no bell announced waits no longer than this
_REMEMBERED_PREFIXES = 64
_NOT_STARTED_BACKOFF = timedelta(seconds=3)


class Claims:
    """Claims for one model in the name of this process's present incarnation."""

    def __init__(self, sessions: Sessions, *, model: str, me: Callable[[], UUID]) -> None:
        self._sessions = sessions
        self._model = model
        self._me = me
        self._prefixes = deque[str](maxlen=_REMEMBERED_PREFIXES)
        self._prefer_resident = False

    def next(self, room: int) -> list[ShardLease]:
        """Lease the next shards in line that fit `room` tokens."""
        # Every other claim prefers nothing, lest a shard wait for ever behind a popular prefix.
        self._prefer_resident = not self._prefer_resident
        resident = list(self._prefixes) if self._prefer_resident else []
        with self._sessions.begin() as session:
            claimed = leases.claim(
                session, self._me(), model=self._model, room=room, resident=resident
            )
        if not claimed:
            metrics.CLAIMS_EMPTY.inc()
        self._prefixes.extend(lease.prefix_key for lease in claimed if lease.prefix_key)
        return claimed

    def take_alone(self, lease: ShardLease) -> None:
        """Say that a solo shard now has the engine to itself.  Raises LeaseLost."""
        with self._sessions.begin() as session:
            leases.take_alone(session, lease)


class Pump:
    def __init__(
        self,
        claims: Claims,
        held: HeldShards,
        *,
        runner: ShardRunner,
        starters: Crew,
        custody: Custody,
        room: Callable[[], int],
    ) -> None:
        """`starters` read shards' inputs.  `room`: tokens that the engine may still be given,
        shards held but not yet started left out."""
        self._claims = claims
        self._held = held
        self._runner = runner
        self._custody = custody
        self._room = room
        self._draining = False
        self._starters = starters
        self._thread = threading.Thread(target=self._run, name="pump", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def drain(self, grace: float) -> None:
        """Claim nothing more; let what is held finish for `grace` seconds, hand back the rest."""
        self._draining = True
        self._held.changed.set()
        self._thread.join()
        if not self._held.wait_until_empty(grace):
            for lease in self._held.all():
                self._custody.hand_back(lease)
        self._starters.stop()

    def _run(self) -> None:
        while not self._draining:
            self._held.changed.wait(_LOOK_EVERY)
            self._held.changed.clear()
            try:
                self.claim_more()
            except SQLAlchemyError:
                log.warning("not claimed; tried again soon", exc_info=True)

    def claim_more(self) -> None:
        """Claim and start shards until the line or the room ends."""
        while not (self._draining or self._held.is_full() or self._solo_has_the_floor()):
            room = self._room() - self._held.waiting_cost()
            claimed = self._claims.next(room)
            for lease in claimed:
                self._held.add(lease)
                if not lease.solo:
                    self._starters.submit(self._start, lease)
            if not claimed:
                return

    def _solo_has_the_floor(self) -> bool:
        """Whether a solo shard is held; starts it once it is the only one."""
        held = self._held.all()
        solo = next((lease for lease in held if lease.solo), None)
        if solo is None:
            return False
        if len(held) == 1 and self._held.is_waiting(solo):
            self._start_alone(solo)
        return True

    def _start_alone(self, lease: ShardLease) -> None:
        try:
            self._claims.take_alone(lease)
        except LeaseLost:
            self._custody.lost(lease)
            return
        self._start(lease)

    def _start(self, lease: ShardLease) -> None:
        try:
            self._runner.start(lease)
        except InputDamaged as damage:
            log.error("a shard cannot be run: %s", damage, extra={"job_id": str(lease.job_id)})
            self._custody.set_aside(lease)
        except (StorageUnavailable, SQLAlchemyError):
            log.warning("shard not started, handed back", exc_info=True)
            self._custody.hand_back(lease, after=_NOT_STARTED_BACKOFF)
        else:
            self._held.mark_started(lease)
            self._held.changed.set()
            if not self._held.is_held(lease.held):  # let go while it was read
                self._custody.lost(lease)
