"""Lightning: kills the database connection of whoever is about to run its n-th statement or COMMIT.

The backend is ended by `pg_terminate_backend`, so the client meets what it meets when a server or a
network fails it.  A COMMIT may be struck before it is sent, or after it has taken effect and before
its answer comes back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import OperationalError

_KILL = text("SELECT pg_terminate_backend(:pid, 5000)")  # milliseconds to be gone in


class Where(StrEnum):
    STATEMENT = "statement"
    COMMIT = "commit"  # before it is sent
    ANSWER = "answer"  # it has taken effect, and nobody hears of it


class Strike(NamedTuple):
    """`after`: so many statements, or COMMITs, are let pass."""

    where: Where
    after: int


class Lightning:
    def __init__(self, struck: Engine, admin: Engine) -> None:
        """Strikes connections of the one engine over a connection of the other."""
        self._admin = admin
        self._armed: Strike | None = None
        event.listen(struck, "before_cursor_execute", self._before_statement)
        event.listen(struck, "commit", self._before_commit)

    @contextmanager
    def threatening(self, strike: Strike | None) -> Iterator[None]:
        """Strikes once, if what is done meanwhile comes as far as that."""
        self._armed = strike
        try:
            yield
        finally:
            self._armed = None

    def _is_due(self, *places: Where) -> bool:
        if self._armed is None or self._armed.where not in places:
            return False
        where, after = self._armed
        self._armed = Strike(where, after - 1) if after else None
        return after == 0

    def _before_statement(self, connection: Connection, *_: Any) -> None:
        if self._is_due(Where.STATEMENT):
            self._kill(connection)

    def _before_commit(self, connection: Connection) -> None:
        answered = self._armed is None or self._armed.where is not Where.ANSWER
        if not self._is_due(Where.COMMIT, Where.ANSWER):
            return
        if answered:
            self._kill(connection)
            return
        driver = _driver(connection)
        driver.commit()
        self._kill(connection)
        connection.invalidate()
        raise OperationalError("COMMIT", None, psycopg.OperationalError("its answer was lost"))

    def _kill(self, connection: Connection) -> None:
        with self._admin.connect() as admin:
            admin.execute(_KILL, {"pid": _driver(connection).info.backend_pid})


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver
