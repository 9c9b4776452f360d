"""The engine host: the worker's one thread that owns the engine.

Others hand it groups of requests and abortions through an inbox and are told of completions by
callback, on this thread: a callback must be quick and must not raise.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from engine.requests import Completion, Request
from engine.stats import EngineStats
from jobs.workers import Held
from worker.inference.batch_engine import BatchEngine

log = logging.getLogger(__name__)

_ROWS_COMPARED = 8
_IDLE_LOOK = 0.5  # seconds between looks at the stop flag while nothing comes in


@dataclass(frozen=True, slots=True)
class Group:
    """The requests of one shard at one attempt.  `cost` in tokens, until the engine knows them.

    followers: requests still to come, with other shards, that begin as all of these do
    """

    held: Held
    requests: Sequence[Request]
    cost: int
    on_completion: Callable[[Completion], None]
    followers: int = 0


@dataclass(frozen=True, slots=True)
class _Abort:
    held: Held


class EngineHost:
    def __init__(
        self,
        engine: BatchEngine,
        *,
        is_held: Callable[[Held], bool],
        die: Callable[[str], None],
    ) -> None:
        """`is_held`: whether this process still has a shard's lease.  A group that comes after its
        shard was let go is left out, for its abortion may have come before."""
        self._engine = engine
        self._is_held = is_held
        self._die = die
        self._inbox = queue.SimpleQueue[Group | _Abort]()
        self._inbound = _Sum()  # cost of what lies in the inbox
        self._group_of = dict[str, Group]()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._moved = (0, time.monotonic())  # the last step seen, and when
        self.capacity = engine.room()  # tokens, of the idle engine

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def submit(self, group: Group) -> None:
        self._inbound.add(group.cost)
        self._inbox.put(group)

    def abort(self, held: Held) -> None:
        """Drop a group; its requests not yet completed get no callback any more."""
        self._inbox.put(_Abort(held))

    def room(self) -> int:
        """Tokens that may still be promised, the inbox counted; may be negative."""
        return self._engine.room() - self._inbound.value

    def stats(self) -> EngineStats:
        return self._engine.stats()

    def progress(self) -> int:
        return self._engine.steps

    def is_hung(self, after: timedelta) -> bool:
        """Whether there was work and no step for `after`.  For the beat's thread alone."""
        steps, now = self._engine.steps, time.monotonic()
        if steps != self._moved[0] or not self._group_of:
            self._moved = (steps, now)
        return now - self._moved[1] > after.total_seconds()

    def seconds_without_progress(self) -> float:
        """As of the last look of `is_hung`; the time since it, while the engine is idle."""
        return time.monotonic() - self._moved[1]

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._take_in()
                if self._engine.has_work:
                    self._deliver(self._engine.step())
        except Exception as error:
            # What could be put down to one request ended that one; this is the engine's own end.
            log.exception("the engine failed")
            self._die(f"the engine failed: {type(error).__name__}")

    def _take_in(self) -> None:
        """Do what the inbox says; wait a moment for something if there is nothing to compute."""
        try:
            busy = self._engine.has_work
            self._do(self._inbox.get_nowait() if busy else self._inbox.get(timeout=_IDLE_LOOK))
            while True:
                self._do(self._inbox.get_nowait())
        except queue.Empty:
            return

    def _do(self, command: Group | _Abort) -> None:
        match command:
            case Group():
                if self._is_held(command.held):
                    self._add(command)
                self._inbound.add(-command.cost)
            case _Abort(held):
                ids = [name for name, group in self._group_of.items() if group.held == held]
                self._engine.abort(ids)
                for request_id in ids:
                    del self._group_of[request_id]
            case _:
                assert_never(command)

    def _add(self, group: Group) -> None:
        for request in group.requests:
            self._group_of[request.request_id] = group
        self._deliver(self._engine.add(group.requests))
        self._expect(group)

    def _expect(self, group: Group) -> None:
        """Tell the engine what will come after the group: a few of its rows say how all begin.

        No followers is worth a word too: those it was told of went to another worker, or nowhere.
        """
        rows = group.requests[:: -(-len(group.requests) // _ROWS_COMPARED)]
        if len(rows) > 1:
            prompts = [row.prompt for row in rows]
            self._engine.expect(prompts, group.followers, salt=rows[0].salt)

    def _deliver(self, completions: list[Completion]) -> None:
        for completion in completions:
            self._group_of.pop(completion.request_id).on_completion(completion)


class _Sum:
    """A number that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0

    def add(self, amount: int) -> None:
        with self._lock:
            self.value += amount
