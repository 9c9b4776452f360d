"""`/v1/webhook_deliveries` (ours): what was sent to whom, and sending it again."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Depends, Query

from api.bodies import body_of, documented
from api.deps import AllServices, CurrentCaller, DbSession, after_id, row_id
from api.schemas.given import ListOf
from api.schemas.webhooks import DeliveryObject, DeliveryQuery, RangeAgain, RangeResult
from jobs import ids, redelivery
from jobs.doorbell import CONTROL
from jobs.paging import Cursor
from jobs.redelivery import MAX_AGAIN, Range

router = APIRouter(prefix="/v1/webhook_deliveries", tags=["webhooks"])


@router.get("")
def list_deliveries(
    caller: CurrentCaller, session: DbSession, query: Annotated[DeliveryQuery, Query()]
) -> ListOf[DeliveryObject]:
    """The newest first."""
    name = query.endpoint_id
    views, has_more = redelivery.list_page(
        session,
        tenant_id=caller.tenant_id,
        endpoint_id=None if name is None else row_id(ids.ENDPOINT, name, param="endpoint_id"),
        state=query.status,
        cursor=Cursor(limit=query.limit, after=after_id(ids.DELIVERY, query.after)),
    )
    return ListOf.page([DeliveryObject.of(view) for view in views], has_more=has_more)


@router.get("/{delivery_id}")
def read_delivery(delivery_id: str, caller: CurrentCaller, session: DbSession) -> DeliveryObject:
    view = redelivery.get(session, tenant_id=caller.tenant_id, delivery_id=_id(delivery_id))
    return DeliveryObject.of(view)


@router.post("/redeliver", openapi_extra=documented(RangeAgain))
def redeliver_range(
    body: Annotated[RangeAgain, Depends(body_of(RangeAgain))],
    caller: CurrentCaller,
    session: DbSession,
    services: AllServices,
    background: BackgroundTasks,
) -> RangeResult:
    """Send again what an endpoint missed between two times, the earliest first."""
    wanted = Range(
        endpoint_id=row_id(ids.ENDPOINT, body.endpoint_id, param="endpoint_id"),
        since=body.since,
        until=body.until,
        failed_only=body.failed_only,
    )
    taken = redelivery.redeliver_range(session, wanted, tenant_id=caller.tenant_id)
    background.add_task(services.doorbell.ring, CONTROL)
    return RangeResult(redelivered=taken, has_more=taken == MAX_AGAIN)


@router.post("/{delivery_id}/redeliver")
def redeliver(
    delivery_id: str,
    caller: CurrentCaller,
    session: DbSession,
    services: AllServices,
    background: BackgroundTasks,
) -> DeliveryObject:
    """Send one again, with the same event id and body."""
    redelivery.redeliver(session, tenant_id=caller.tenant_id, delivery_id=_id(delivery_id))
    background.add_task(services.doorbell.ring, CONTROL)
    view = redelivery.get(session, tenant_id=caller.tenant_id, delivery_id=_id(delivery_id))
    return DeliveryObject.of(view)


def _id(name: str) -> UUID:
    return row_id(ids.DELIVERY, name, param="delivery_id")
