"""Which shards this process holds: asked by the pump, the beat and the drain."""

import threading

from jobs.leases import ShardLease
from jobs.workers import Held


class HeldShards:
    """Safe to share between threads.  `changed` wakes the pump: it is set whenever a shard is let
    go, and by whoever else has reason to think that there is something to claim or to start."""

    def __init__(self, limit: int) -> None:
        """`limit`: tokens, the cost at which no more should be claimed whatever the engine's room:
        what is computed and cannot be written yet is held too, and another worker may be idle."""
        self.changed = threading.Event()
        self._limit = limit
        self._leases = dict[Held, ShardLease]()
        self._waiting = set[Held]()  # claimed, and not yet with the engine
        self._lock = threading.Lock()
        self._empty = threading.Condition(self._lock)

    def add(self, lease: ShardLease) -> None:
        with self._lock:
            self._leases[lease.held] = lease
            self._waiting.add(lease.held)

    def mark_started(self, lease: ShardLease) -> None:
        with self._lock:
            self._waiting.discard(lease.held)

    def remove(self, held: Held) -> bool:
        """Let a shard go.  False if it was not held any more."""
        with self._lock:
            known = self._leases.pop(held, None) is not None
            self._waiting.discard(held)
            if not self._leases:
                self._empty.notify_all()
        self.changed.set()
        return known

    def get(self, held: Held) -> ShardLease | None:
        with self._lock:
            return self._leases.get(held)

    def all(self) -> list[ShardLease]:
        with self._lock:
            return list(self._leases.values())

    def is_full(self) -> bool:
        with self._lock:
            return sum(lease.cost for lease in self._leases.values()) >= self._limit

    def is_held(self, held: Held) -> bool:
        with self._lock:
            return held in self._leases

    def is_waiting(self, lease: ShardLease) -> bool:
        """Whether a held shard has not been started."""
        with self._lock:
            return lease.held in self._waiting

    def waiting_cost(self) -> int:
        """Tokens of the claimed shards that the engine does not know of yet."""
        with self._lock:
            return sum(self._leases[held].cost for held in self._waiting)

    def wait_until_empty(self, timeout: float) -> bool:
        with self._lock:
            return self._empty.wait_for(lambda: not self._leases, timeout)
