"""Leases on jobs and deliveries that their living owner knows nothing of.

A claim whose COMMIT was never answered, or a release that could not be written, leaves a row leased
to a process that works on something else.  Its beat would keep that row for ever.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True)
class Leased:
    """A job or a delivery at one attempt."""

    id: UUID
    attempt: int


_OWNED = text("""
    SELECT id, attempt FROM jobs WHERE owner = :me
    UNION ALL
    SELECT id, attempt FROM deliveries WHERE owner = :me
""")

_LET_GO = [
    text(f"""
        UPDATE {table} SET owner = NULL WHERE id = :id AND owner = :me AND attempt = :attempt
    """)
    for table in ("jobs", "deliveries")
]


def owned(session: Session, me: UUID) -> set[Leased]:
    return {Leased(row.id, row.attempt) for row in session.execute(_OWNED, {"me": me})}


def let_go(session: Session, me: UUID, leased: Leased) -> None:
    """Give a row up in its present state, to be leased again by anyone."""
    for statement in _LET_GO:
        session.execute(statement, {"id": leased.id, "attempt": leased.attempt, "me": me})
