"""What the beat of an inference worker keeps alive, and what it does when told to let go."""

import time
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID

from engine.stats import EngineStats
from jobs.workers import Held
from worker.inference.custody import Custody
from worker.inference.engine_host import EngineHost
from worker.inference.held_shards import HeldShards
from worker.threads import Crew


class InferenceHolder:
    """The beat calls it on its own thread, so whatever may wait on a network goes to another."""

    def __init__(
        self,
        held: HeldShards,
        *,
        host: EngineHost,
        custody: Custody,
        hands: Crew,
        hang_after: timedelta,
    ) -> None:
        self._held = held
        self._host = host
        self._custody = custody
        self._hang_after = hang_after
        self._rates = _Rates(host.stats())
        self._hands = hands
        self._leaving = set[Held]()  # told to stop, and not yet let go

    def held(self) -> list[Held]:
        return [lease.held for lease in self._held.all()]

    def progress(self) -> int:
        return self._host.progress()

    def stats(self) -> dict[str, Any]:
        stats = self._host.stats()
        return asdict(stats) | self._rates.since_last(stats)

    def is_hung(self) -> bool:
        return self._host.is_hung(self._hang_after)

    def stop(self, shards: list[Held]) -> None:
        """Their lease is lost or their job is stopping: the hand-back finds out which."""
        for held in set(shards) - self._leaving:
            lease = self._held.get(held)
            if lease is not None:
                self._host.abort(held)  # at once: the rest may wait for another's flush
                self._hands.submit(self._custody.hand_back, lease)
        self._leaving = set(shards)

    def hand_back(self, shards: list[Held], owner: UUID) -> None:
        for held in shards:
            self._hands.submit(self._custody.return_to_line, held, owner)

    def drop_all(self) -> None:
        self._custody.drop_all()


class _Rates:
    """Tokens a second and prefix hit rate between one beat and the next."""

    def __init__(self, stats: EngineStats) -> None:
        self._last = stats
        self._at = time.monotonic()

    def since_last(self, stats: EngineStats) -> dict[str, float]:
        now, last = time.monotonic(), self._last
        seconds = max(now - self._at, 1e-3)
        prompt = stats.prefill_tokens_logical - last.prefill_tokens_logical
        self._last, self._at = stats, now
        return {
            "output_tokens_per_second": (stats.output_tokens - last.output_tokens) / seconds,
            "prompt_tokens_per_second": prompt / seconds,
            "prefix_hit_rate": (stats.cached_tokens - last.cached_tokens) / prompt if prompt else 0,
        }
