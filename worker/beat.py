"""A worker's one beat, from its own OS thread: renews every lease that the process holds.

It goes out only while the process makes progress or is idle, so a hung engine loses its leases.
The reply says which shards to drop.  A beat that finds its incarnation over, or that has not been
answered for `fence_after`, drops everything and begins a new incarnation; the model stays loaded.
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

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from jobs import workers
from jobs.database import Sessions
from jobs.models import WorkerKind
from jobs.workers import Held, Identity

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
        self._answered = 0.0  # monotonic time at which the last answered beat was sent
        self._unknown: set[Held] = set()
        self._alive = False
        self.incarnation = uuid.uuid4()  # nobody yet

    def start(self, holder: Holder) -> None:
        """Register the first incarnation and beat from now on.  Raises what Postgres raises."""
        self._holder = holder
        self._register()
        self._thread.start()

    def drain(self) -> None:
        """Claim nothing more; beats go on."""
        with self._sessions.begin() as session:
            workers.drain(session, self.incarnation)

    def retire(self) -> None:
        """End the incarnation; what it still holds is rescued at once."""
        self._stopping.set()
        self._thread.join()
        with self._sessions.begin() as session:
            workers.retire(session, self.incarnation)

    def _run(self) -> None:
        interval = self._rhythm.interval.total_seconds()
        while not self._stopping.wait(interval * random.uniform(1 - _JITTER, 1)):
            if self._holder.is_hung():
                self._die("the engine has stopped stepping")
            try:
                self._tick()
            except SQLAlchemyError as error:
                log.warning("beat not answered: %s", _first_line(error))
                self._fence_if_silent()
            except Exception as error:
                log.exception("the beat failed")
                self._die(f"the beat failed: {type(error).__name__}")

    def _tick(self) -> None:
        if self._alive:
            self._beat()
        else:
            self._register()

    def _beat(self) -> None:
        sent, held = time.monotonic(), self._holder.held()
        with self._sessions.begin() as session:
            alive = workers.beat(
                session,
                self.incarnation,
                ttl=self._rhythm.ttl,
                progress=self._holder.progress(),
                stats=self._holder.stats(),
            )
            reply = workers.compare(session, self.incarnation, held) if alive else None
        if reply is None:
            self._end_incarnation()
            return
        self._answered = sent
        self._holder.stop(reply.stop)
        self._settle_unknown(set(reply.unknown))

    def _settle_unknown(self, unknown: set[Held]) -> None:
        # A claim whose COMMIT was never answered.  One beat may overtake an answer; two do not.
        self._holder.hand_back(list(unknown & self._unknown), self.incarnation)
        self._unknown = unknown - self._unknown

    def _fence_if_silent(self) -> None:
        silent = time.monotonic() - self._answered
        if self._alive and silent > self._rhythm.fence_after.total_seconds():
            self._end_incarnation()

    def _end_incarnation(self) -> None:
        """It never beats again; the next tick begins another."""
        log.error("incarnation over, work dropped", extra={"incarnation": str(self.incarnation)})
        self._alive = False
        self._unknown = set()
        self._holder.drop_all()

    def _register(self) -> None:
        sent, incarnation = time.monotonic(), uuid.uuid4()
        identity = Identity(incarnation, self._kind, self._model, socket.gethostname(), os.getpid())
        with self._sessions.begin() as session:
            workers.register(session, identity, ttl=self._rhythm.ttl)
        self.incarnation, self._answered, self._alive = incarnation, sent, True


def _first_line(error: SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).partition("\n")[0]
