"""`/v1/webhook_endpoints`, as OpenAI's client manages them: `client.webhooks`."""

import asyncio
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from starlette.concurrency import run_in_threadpool

from api.answers import OneAnswer
from api.bodies import body_of, documented
from api.deps import AllServices, CurrentCaller, DbSession, after_id, row_id
from api.errors import refuse
from api.schemas.given import ListOf
from api.schemas.sent import PageQuery
from api.schemas.webhooks import (
    DeletedEndpoint,
    EndpointChangeSent,
    EndpointCreate,
    EndpointObject,
    EndpointTest,
    EndpointTested,
    EndpointWithSecret,
    EventTypeList,
    SecretRotate,
)
from api.services import Services
from jobs import endpoints, events, ids, redelivery, webhook_urls
from jobs.doorbell import CONTROL
from jobs.endpoints import EndpointChange
from jobs.keys import Caller
from jobs.models import Delivery, DeliveryState
from jobs.paging import Cursor

router = APIRouter(tags=["webhooks"])

_PATH = "/v1/webhook_endpoints"
_TEST_LOOKS = 200  # of a tenth of a second: longer than an attempt may take
_LOOK_EVERY = 0.1


@router.post(_PATH, response_model=EndpointWithSecret, openapi_extra=documented(EndpointCreate))
def create_endpoint(
    body: Annotated[EndpointCreate, Depends(body_of(EndpointCreate))],
    session: DbSession,
    once: OneAnswer,
    services: AllServices,
) -> Response:
    """Tell an address of events from now on.  Its secret is in this answer and in no other."""
    webhook_urls.check(body.url, allow_private=services.allow_private_webhooks, param="url")
    secrets = services.secrets

    def make() -> EndpointWithSecret:
        made, secret = endpoints.create(
            session,
            secrets,
            tenant_id=once.caller.tenant_id,
            name=body.name,
            url=body.url,
            event_types=body.event_types,
        )
        return EndpointWithSecret.shown_once(made, secrets, secret=secret)

    answer = once.answer(session, make, body=body.model_dump_json(), sealed_by=secrets)
    return Response(answer, media_type="application/json")


@router.get(_PATH)
def list_endpoints(
    caller: CurrentCaller,
    session: DbSession,
    services: AllServices,
    query: Annotated[PageQuery, Query()],
) -> ListOf[EndpointObject]:
    cursor = Cursor(limit=query.limit, after=after_id(ids.ENDPOINT, query.after))
    page = endpoints.list_page(session, tenant_id=caller.tenant_id, cursor=cursor)
    items = [EndpointObject.of(endpoint, services.secrets) for endpoint in page.rows]
    return ListOf.page(items, has_more=page.has_more)


@router.get("/v1/webhook_event_types")
def list_event_types(_: CurrentCaller) -> EventTypeList:
    return EventTypeList()


@router.get(_PATH + "/{webhook_endpoint_id}")
def read_endpoint(
    webhook_endpoint_id: str, caller: CurrentCaller, session: DbSession, services: AllServices
) -> EndpointObject:
    endpoint = endpoints.get(
        session, tenant_id=caller.tenant_id, endpoint_id=_id(webhook_endpoint_id)
    )
    return EndpointObject.of(endpoint, services.secrets)


@router.post(_PATH + "/{webhook_endpoint_id}", openapi_extra=documented(EndpointChangeSent))
def change_endpoint(
    webhook_endpoint_id: str,
    body: Annotated[EndpointChangeSent, Depends(body_of(EndpointChangeSent))],
    caller: CurrentCaller,
    session: DbSession,
    services: AllServices,
) -> EndpointObject:
    """Change an endpoint, or (ours) enable or disable it; what waits goes to its new address."""
    if body.url is not None:
        webhook_urls.check(body.url, allow_private=services.allow_private_webhooks, param="url")
    wanted = EndpointChange(
        name=body.name, url=body.url, event_types=body.event_types, enabled=body.enabled
    )
    endpoint = endpoints.change(
        session, tenant_id=caller.tenant_id, endpoint_id=_id(webhook_endpoint_id), wanted=wanted
    )
    return EndpointObject.of(endpoint, services.secrets)


@router.delete(_PATH + "/{webhook_endpoint_id}")
def delete_endpoint(
    webhook_endpoint_id: str, caller: CurrentCaller, session: DbSession
) -> DeletedEndpoint:
    endpoints.delete(session, tenant_id=caller.tenant_id, endpoint_id=_id(webhook_endpoint_id))
    return DeletedEndpoint(id=webhook_endpoint_id)


@router.post(
    _PATH + "/{webhook_endpoint_id}/rotate_secret",
    response_model=EndpointWithSecret,
    openapi_extra=documented(SecretRotate),
)
def rotate_secret(
    webhook_endpoint_id: str,
    body: Annotated[SecretRotate, Depends(body_of(SecretRotate))],
    session: DbSession,
    once: OneAnswer,
    services: AllServices,
) -> Response:
    """Make a new secret.  The old one signs beside it for a day, if that is asked for."""
    secrets = services.secrets

    def make() -> EndpointWithSecret:
        endpoint, secret = endpoints.rotate_secret(
            session,
            secrets,
            tenant_id=once.caller.tenant_id,
            endpoint_id=_id(webhook_endpoint_id),
            keep_old=body.keep_old_secret_active_for_24_hours,
        )
        return EndpointWithSecret.shown_once(endpoint, secrets, secret=secret)

    answer = once.answer(session, make, body=body.model_dump_json(), sealed_by=secrets)
    return Response(answer, media_type="application/json")


@router.post(
    _PATH + "/{webhook_endpoint_id}/test",
    response_model=EndpointTested,
    openapi_extra=documented(EndpointTest),
)
async def test_endpoint(
    webhook_endpoint_id: str,
    body: Annotated[EndpointTest, Depends(body_of(EndpointTest))],
    caller: CurrentCaller,
    services: AllServices,
) -> Response:
    """Send a sample event once, and say what the endpoint answered."""
    endpoint_id = _id(webhook_endpoint_id)
    sent = await run_in_threadpool(_send_sample, services, caller, endpoint_id, body.event_type)
    await run_in_threadpool(services.doorbell.ring, CONTROL)
    for _ in range(_TEST_LOOKS):
        found = await run_in_threadpool(_delivery, services, caller, sent)
        if found.state is not DeliveryState.PENDING:
            return _result(webhook_endpoint_id, body.event_type, found)
        await asyncio.sleep(_LOOK_EVERY)
    message = "The sample has not been sent yet: no control process has taken it up."
    return refuse(504, message, code="timeout")


def _send_sample(services: Services, caller: Caller, endpoint_id: UUID, event_type: str) -> UUID:
    with services.sessions.begin() as session:
        endpoints.get(session, tenant_id=caller.tenant_id, endpoint_id=endpoint_id)
        return events.add_sample(session, endpoint_id=endpoint_id, event_type=event_type)


def _delivery(services: Services, caller: Caller, delivery_id: UUID) -> Delivery:
    with services.sessions() as session:
        view = redelivery.get(session, tenant_id=caller.tenant_id, delivery_id=delivery_id)
        return view.delivery


def _result(name: str, event_type: str, found: Delivery) -> Response:
    if found.last_status is None:  # not a 5xx, after which clients would try again by themselves
        message = f"The endpoint did not answer: {found.last_error}."
        return refuse(424, message, code="endpoint_unreachable", param="url")
    result = EndpointTested(
        webhook_endpoint_id=name, event_type=event_type, status_code=found.last_status
    )
    return Response(result.model_dump_json(), media_type="application/json")


def _id(name: str) -> UUID:
    return row_id(ids.ENDPOINT, name, param="webhook_endpoint_id")
