"""One look at the database for everybody who watches."""

import time
from collections.abc import Callable
from datetime import timedelta

from api.patience import Patient
from jobs import overview
from jobs.database import Sessions
from jobs.overview.views import Overview


class Snapshots:
    """Takes an overview at most once per `max_age`, however many pages and scrapers ask for it."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        beat_ttl: timedelta,
        max_age: float = 0.9,  # seconds; the page asks each second
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = sessions
        self._beat_ttl = beat_ttl
        self._max_age = max_age
        self._clock = clock
        self._look = Patient(self._take)
        self._newest: Overview | None = None
        self._taken_at = 0.0

    def newest(self) -> Overview:
        """Raises NoAnswer while the database is silent."""
        return self._look()

    def _take(self) -> Overview:
        if self._newest is None or self._clock() - self._taken_at >= self._max_age:
            self._newest = overview.take(self._sessions, beat_ttl=self._beat_ttl)
            self._taken_at = self._clock()
        return self._newest
