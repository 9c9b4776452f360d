"""Remembers for a moment whose key was shown, so that not each request asks the database.

A key that is revoked, or its tenant's limits changed, is remembered as it was for that moment.
"""

import hashlib
import time
from collections.abc import Callable
from datetime import timedelta

from jobs.keys import Caller

_MOST = 10_000


class KnownKeys:
    """Safe to share between threads."""

    def __init__(
        self,
        authenticate: Callable[[str], Caller],
        *,
        remember_for: timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`authenticate` may block, and raises NotAuthenticated."""
        self._authenticate = authenticate
        self._seconds = remember_for.total_seconds()
        self._clock = clock
        self._callers = dict[bytes, tuple[float, Caller]]()  # until when, by the key's hash

    def recall(self, key: str) -> Caller | None:
        """Whose key this was a moment ago.  Asks nobody."""
        until, caller = self._callers.get(_hash(key), (0.0, None))
        return caller if self._clock() < until else None

    def ask(self, key: str) -> Caller:
        """Whose key this is.  Raises NotAuthenticated."""
        caller = self._authenticate(key)
        if len(self._callers) >= _MOST:
            self._callers = {}
        self._callers[_hash(key)] = (self._clock() + self._seconds, caller)
        return caller


def _hash(key: str) -> bytes:
    # What lies in memory should be of no use to whoever gets to read it.
    return hashlib.sha256(key.encode()).digest()
