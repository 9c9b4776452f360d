"""Writes the stored secrets anew, when another server key has taken the place of theirs."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.orm import InstrumentedAttribute

from jobs.database import Sessions
from jobs.models import Tenant, WebhookEndpoint
from jobs.secrets import Secrets

_PAGE = 500
_FIRST = UUID(int=0)

_STORED: Sequence[InstrumentedAttribute[Any]] = (
    Tenant.webhook_secret,
    WebhookEndpoint.secret,
    WebhookEndpoint.old_secret,
)


def renew(sessions: Sessions, secrets: Secrets) -> int:
    """Encrypt every secret with the present key, and say how many there are.

    It may be done again, and beside all other work.  Raises InvalidToken where a secret is of
    neither key.
    """
    return sum(_renew_column(sessions, secrets, column) for column in _STORED)


def _renew_column(sessions: Sessions, secrets: Secrets, column: InstrumentedAttribute[Any]) -> int:
    renewed, last = 0, _FIRST
    while page := _renew_page(sessions, secrets, column, after=last):
        renewed, last = renewed + len(page), page[-1]
    return renewed


def _renew_page(
    sessions: Sessions, secrets: Secrets, column: InstrumentedAttribute[Any], *, after: UUID
) -> list[UUID]:
    table = column.class_
    some = select(table.id, column).where(table.id > after, column != b"")
    with sessions.begin() as session:
        page = session.execute(some.order_by(table.id).limit(_PAGE)).all()
        for row_id, token in page:
            # If its owner has rotated it meanwhile, the new one stands, under a present key.
            this = update(table).where(table.id == row_id, column == token)
            session.execute(this.values({column: secrets.renew(token)}))
    return [row_id for row_id, _ in page]
