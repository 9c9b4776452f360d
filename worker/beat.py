"""A worker's one beat, from its own OS thread: renews every lease that the process holds.

It goes out only while the process makes progress or is idle, so a hung engine loses its leases.
The reply says which shards to drop.  A beat that finds its incarnation over, or a fence that has
waited for an answer for too long, drops everything; the next beat begins a new incarnation and says
that the last one did not die, unless it was the process that stood still (decision 32).  The model
stays loaded.
"""

import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from jobs import workers
from jobs.database import Sessions, cause, connect, sessions_of
from jobs.models import WorkerKind
from jobs.settings import LeaseSettings
from jobs.workers import Held, Identity
from worker.fence import Fence
from worker.process import exit_for_restart

log = logging.getLogger(__name__)

_JITTER = 0.1  # of the interval, so that a fleet started together does not beat together


class Holder(Protocol):
    """What a beat keeps alive: the part of a process that holds leases."""

    def held(self) -> list[Held]: ...
    def progress(self) -> int: ...
    def stats(self) -> dict[str, Any]: ...
    def is_hung(self) -> bool: ...
    def stop(self, shards: list[Held]) -> None: ...
    def hand_back(self, shards: list[Held], owner: UUID) -> None: ...
    def drop_all(self) -> None: ...


class HoldsNoShards:
    """A control process: its job leases are fenced by their own writes, and it cannot hang."""

    def held(self) -> list[Held]:
        return []

    def progress(self) -> int:
        return 0

    def stats(self) -> dict[str, Any]:
        return {}

    def is_hung(self) -> bool:
        return False

    def stop(self, shards: list[Held]) -> None:
        del shards

    def hand_back(self, shards: list[Held], owner: UUID) -> None:
        del shards, owner

    def drop_all(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Over:
    """An incarnation that is over, and whether nobody died of it."""

    incarnation: UUID
    resigned: bool


@dataclass(frozen=True, slots=True)
class Rhythm:
    interval: timedelta
    ttl: timedelta
    fence_after: timedelta


class Beat:
    """`incarnation` is who this process is now; every claim names it."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        kind: WorkerKind,
        model: str | None,
        rhythm: Rhythm,
        die: Callable[[str], None],
    ) -> None:
        self._sessions = sessions
        self._kind = kind
        self._model = model
        self._rhythm = rhythm
        self._die = die
        self._holder: Holder = HoldsNoShards()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
        self._fence = Fence(rhythm.fence_after, self._fall)
        self._lock = threading.Lock()  # of what follows: the fence's thread ends incarnations too
        self._unknown: set[Held] = set()
        self._alive = False
        self._last: _Over | None = None  # the incarnation before, until the database knows
        self.incarnation = uuid.uuid4()  # nobody yet

    def start(self, holder: Holder) -> None:
        """Register the first incarnation and beat from now on.  Raises what Postgres raises."""
        self._holder = holder
        self._register()
        self._thread.start()
        self._fence.start()

    def drain(self) -> None:
        """Claim nothing more; beats go on.  A database that does not answer stops no drain: whoever
        calls this claims nothing more by itself."""
        try:
            with self._sessions.begin() as session:
                workers.drain(session, self.incarnation)
        except SQLAlchemyError as error:
            log.warning("drains unannounced: %s", cause(error))

    def retire(self) -> None:
        """End the incarnation; what it still holds is rescued at once, or when its beat lapses if
        the database does not answer now."""
        self._stopping.set()
        self._thread.join()
        self._fence.stop()
        try:
            with self._sessions.begin() as session:
                self._retire_last(session)
                workers.retire(session, self.incarnation)
        except SQLAlchemyError as error:
            log.warning("ends unannounced: %s", cause(error))

    def _run(self) -> None:
        interval = self._rhythm.interval.total_seconds()
        while not self._stopping.wait(interval * random.uniform(1 - _JITTER, 1)):
            if self._holder.is_hung():
                self._die("the engine has stopped stepping")
            try:
                self._tick()
            except SQLAlchemyError as error:
                log.warning("beat not answered: %s", cause(error))
            except Exception as error:
                log.exception("the beat failed")
                self._die(f"the beat failed: {type(error).__name__}")

    def _tick(self) -> None:
        if self._alive:
            self._beat()
        else:
            self._register()

    def _beat(self) -> None:
        me, sent, held = self.incarnation, time.monotonic(), self._holder.held()
        self._fence.note_try(sent)
        with self._sessions.begin() as session:
            alive = workers.beat(
                session,
                me,
                ttl=self._rhythm.ttl,
                progress=self._holder.progress(),
                stats=self._holder.stats(),
            )
            reply = workers.compare(session, me, held) if alive else None
        if reply is None:
            self._end(me, "its beat had lapsed")
        elif self._is_answered(me, sent):
            self._holder.stop(reply.stop)
            self._settle_unknown(me, set(reply.unknown))

    def _is_answered(self, me: UUID, sent: float) -> bool:
        """False if the fence fell before the answer came: the reply is to nobody."""
        with self._lock:
            if self.incarnation != me:
                return False
        self._hold_fence(sent)
        return True

    def _hold_fence(self, sent: float) -> None:
        self._fence.hold(sent, next_try=time.monotonic() + self._rhythm.interval.total_seconds())

    def _settle_unknown(self, me: UUID, unknown: set[Held]) -> None:
        # A claim whose COMMIT was never answered.  One beat may overtake an answer; two do not.
        self._holder.hand_back(list(unknown & self._unknown), me)
        self._unknown = unknown - self._unknown

    def _fall(self) -> None:
        self._end(self.incarnation, "no beat was answered in time")

    def _end(self, me: UUID, reason: str) -> None:
        """`me` never beats again; the next tick begins another.  Called by two threads."""
        with self._lock:
            if not self._alive or self.incarnation != me:
                return
            self._alive = False
            # Not even a beat was begun: something that we hold has stopped the whole process, and
            # would stop the next one too.  That is for the rescue to count.
            self._last = _Over(me, resigned=self._fence.was_tried())
            # Nobody until then: what is claimed in a name that is not registered is nothing.
            self.incarnation = uuid.uuid4()
            self._unknown = set()
            self._holder.drop_all()  # before another incarnation claims anything
        log.error("incarnation over, work dropped: %s", reason, extra={"incarnation": str(me)})

    def _register(self) -> None:
        sent, me = time.monotonic(), uuid.uuid4()
        identity = Identity(me, self._kind, self._model, socket.gethostname(), os.getpid())
        with self._sessions.begin() as session:
            self._retire_last(session)
            workers.register(session, identity, ttl=self._rhythm.ttl)
        self._hold_fence(sent)
        with self._lock:
            self.incarnation, self._alive, self._last = me, True, None

    def _retire_last(self, session: Session) -> None:
        if self._last is not None:
            workers.retire(session, self._last.incarnation, resigned=self._last.resigned)


def beat_of_this_process(
    leases: LeaseSettings, database_url: str, *, kind: WorkerKind, model: str | None
) -> Beat:
    """A beat on a connection of its own, which ends the process where it must."""
    return Beat(
        sessions_of(connect(database_url, pool_size=1)),
        kind=kind,
        model=model,
        rhythm=Rhythm(leases.beat_interval, leases.ttl, leases.fence_after),
        die=exit_for_restart,
    )
