"""Holds requests that wait for a job to end, however many there are, with one query for all.

A waiting request is a future on the event loop: no thread, no connection, no query of its own.
Whoever ends a job says so (jobs/endings.py); what was not heard is found by a look, one for all
waited-for jobs, and only while someone waits.  It goes by the jobs' state, never by an event's
number, so a commit that comes late is not skipped.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable
from uuid import UUID

from api.errors import DATABASE_AWAY

log = logging.getLogger(__name__)

_INTERVAL = 0.25  # seconds between two looks
_INTERVAL_AFTER_FAILURE = 1.0


class JobWatch:
    """Used from one event loop, but for `hear`."""

    def __init__(
        self,
        finished_among: Callable[[Collection[UUID]], set[UUID]],
        *,
        stopping: Callable[[], bool],
    ) -> None:
        """`finished_among` may block.  Once `stopping`, everyone who waits is let go."""
        self._finished_among = finished_among
        self._stopping = stopping
        self._waiting: dict[UUID, set[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # where someone waits

    def __len__(self) -> int:
        """How many clients wait."""
        return sum(len(turns) for turns in self._waiting.values())

    async def until_finished(self, job_id: UUID, *, timeout: float) -> None:
        """Return when the job is terminal, at the latest after `timeout` seconds."""
        self._loop = asyncio.get_running_loop()
        turn = self._loop.create_future()
        self._waiting.setdefault(job_id, set()).add(turn)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            await asyncio.wait([turn], timeout=timeout)
        finally:
            self._forget(job_id, turn)

    def hear(self, job_id: UUID) -> None:
        """Let those go who wait for this job, for it has ended.  From any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the server has just ended, and its loop
                self._loop.call_soon_threadsafe(self._release, [job_id])

    def _forget(self, job_id: UUID, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(job_id)
        if turns is not None:
            turns.discard(turn)
            if not turns:
                del self._waiting[job_id]

    async def _watch(self) -> None:
        while self._waiting:
            if self._stopping():
                self._release(list(self._waiting))
                return
            await asyncio.sleep(await self._look())

    async def _look(self) -> float:
        """Release whoever waits for a finished job; return the seconds until the next look."""
        try:
            # Not on the routes' thread pool: when that is full, someone must still be let go.
            finished = await asyncio.to_thread(self._finished_among, list(self._waiting))
        except DATABASE_AWAY:
            log.warning("jobs that clients wait for cannot be looked up", exc_info=True)
            return _INTERVAL_AFTER_FAILURE
        self._release(finished)
        return _INTERVAL

    def _release(self, job_ids: Iterable[UUID]) -> None:
        for job_id in job_ids:
            for turn in self._waiting.pop(job_id, ()):
                if not turn.done():
                    turn.set_result(None)
