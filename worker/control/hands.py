"""What this control process has in hand, and in whose name it claims."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from jobs import strays
from jobs.database import Sessions
from jobs.strays import Leased


class Hands:
    """Safe to share between threads."""

    def __init__(self, sessions: Sessions, me: Callable[[], UUID]) -> None:
        self._sessions = sessions
        self._me = me
        self._lock = threading.Lock()
        self._held = set[Leased]()
        self._strays = set[Leased]()  # leased to us, and not in hand at the last look

    @property
    def me(self) -> UUID:
        return self._me()

    @contextmanager
    def holding(self, row_id: UUID, attempt: int) -> Iterator[None]:
        """While the `with` lasts, the lease is one that this process works on."""
        leased = Leased(row_id, attempt)
        with self._lock:
            self._held.add(leased)
        try:
            yield
        finally:
            with self._lock:
                self._held.discard(leased)

    def let_go_strays(self) -> None:
        """Give up what two looks running found leased to this process and not in its hands.

        One look may fall between a claim and its being taken in hand; two do not.
        """
        me = self.me
        with self._sessions.begin() as session:
            owned = strays.owned(session, me)
            with self._lock:
                found = owned - self._held
            for leased in found & self._strays:
                strays.let_go(session, me, leased)
        self._strays = found
