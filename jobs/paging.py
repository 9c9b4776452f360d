"""One page of a tenant's rows, newest or oldest first, from a cursor that never skips a row.

The cursor is the last row of the page before: its time and id, looked up by its id, so that rows
added or deleted meanwhile move nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, asc, desc, select, tuple_
from sqlalchemy.orm import Session

from jobs.errors import NotFound
from jobs.models import Delivery, File, Job, WebhookEndpoint

Row = TypeVar("Row", File, Job, WebhookEndpoint, Delivery)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    limit: int
    after: UUID | None = None
    newest_first: bool = True


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    rows: Sequence[Row]
    has_more: bool


def fetch(
    session: Session,
    table: type[Row],
    cursor: Cursor,
    *,
    owned: Sequence[ColumnElement[bool]],
    shown: Sequence[ColumnElement[bool]] = (),
) -> Page[Row]:
    """Rows that are both `owned` and `shown`.  A cursor need only be owned: it may be deleted.

    Raises NotFound if the cursor names no row that is owned.
    """
    key = tuple_(table.created_at, table.id)
    query = select(table).where(*owned, *shown)
    if cursor.after is not None:
        place = tuple_(*_place(session, table, cursor.after, owned))
        query = query.where(key < place if cursor.newest_first else key > place)
    direction = desc if cursor.newest_first else asc
    query = query.order_by(direction(table.created_at), direction(table.id))
    rows = session.scalars(query.limit(cursor.limit + 1)).all()
    return Page(rows[: cursor.limit], has_more=len(rows) > cursor.limit)


def _place(
    session: Session, table: type[Row], row_id: UUID, owned: Sequence[ColumnElement[bool]]
) -> tuple[datetime, UUID]:
    anchor = session.execute(
        select(table.created_at, table.id).where(table.id == row_id, *owned)
    ).first()
    if anchor is None:
        raise NotFound(
            "'after' names nothing that is yours; leave it out to start over.", param="after"
        )
    return anchor.created_at, anchor.id
