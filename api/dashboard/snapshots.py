"""One look at the database for everybody who watches."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

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
        self._taking = threading.Lock()
        self._newest: Overview | None = None
        self._taken_at = 0.0

    def newest(self) -> Overview:
        with self._taking:  # who comes while one is being taken waits for that one
            if self._newest is None or self._clock() - self._taken_at >= self._max_age:
                self._newest = overview.take(self._sessions, beat_ttl=self._beat_ttl)
                self._taken_at = self._clock()
            return self._newest
