"""`/v1/batches/{id}/results` while it runs, and `/receipt` once it has ended."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from api.deps import AllServices, CurrentCaller, DbSession, row_id
from api.schemas.receipts import ReceiptObject
from api.schemas.results import ResultsPage, ResultsQuery
from jobs import ids, live_results, receipts
from jobs.errors import InvalidValue
from jobs.live_results import FIRST_PLACE, Place
from jobs.models import JobKind

router = APIRouter(prefix="/v1/batches/{batch_id}", tags=["batches"])

_PREFIX = ids.JOB_PREFIX[JobKind.BATCH]
_CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9]{1,18})", re.ASCII)

_DOCUMENTED: dict[int | str, dict[str, Any]] = {200: {"model": ResultsPage}}


@router.get("/results", response_class=Response, responses=_DOCUMENTED)
def read_results(
    batch_id: str,
    caller: CurrentCaller,
    services: AllServices,
    query: Annotated[ResultsQuery, Query()],
) -> Response:
    """The lines that have finished, in the order in which they did; `after` is a `next_cursor`.

    Ask again with it until `done`.  Rows that never ran are in the error file alone.
    """
    page = live_results.read(
        services.sessions,
        services.storage,
        tenant_id=caller.tenant_id,
        job_id=row_id(_PREFIX, batch_id, param="batch_id"),
        place=_place(query.after),
        limit=query.limit,
    )
    # The lines lie in S3 as they are to be sent: parsing and writing them anew would only cost.
    head, tail = (
        ResultsPage(
            data=[], next_cursor=_cursor(page.next_place), has_more=page.has_more, done=page.done
        )
        .model_dump_json()
        .split("[]", 1)
    )
    body = b"".join((head.encode(), b"[", b",".join(page.lines), b"]", tail.encode()))
    return Response(body, media_type="application/json")


@router.get("/receipt")
def read_receipt(batch_id: str, caller: CurrentCaller, session: DbSession) -> ReceiptObject:
    """What an ended batch read and wrote, to hold its files against: `gristmill verify`."""
    job_id = row_id(_PREFIX, batch_id, param="batch_id")
    return ReceiptObject.of(receipts.read(session, tenant_id=caller.tenant_id, job_id=job_id))


def _place(cursor: str | None) -> Place:
    if cursor is None:
        return FIRST_PLACE
    parts = _CURSOR.fullmatch(cursor)
    if parts is None:
        raise InvalidValue("'after' is not a 'next_cursor' of ours.", param="after")
    return Place(*map(int, parts.groups()))


def _cursor(place: Place) -> str:
    return "-".join(map(str, place))
