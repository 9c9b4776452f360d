"""Webhook endpoints and deliveries, as OpenAI's client reads them, and the bodies it sends."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from api.schemas.given import Given, Named, unix, unix_or_none
from api.schemas.sent import PageQuery, Sent, Text
from jobs import endpoints, events, ids
from jobs.models import DeliveryState, WebhookEndpoint
from jobs.redelivery import DeliveryView
from jobs.secrets import Secrets

_LAST_SECOND = 253_402_300_799  # of the year 9999


def _known(event_type: str) -> str:
    if event_type not in events.TYPES:
        raise ValueError(f"must be one of {', '.join(events.TYPES)}")
    return event_type


EventType = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": events.TYPES})
]
EventTypes = Annotated[list[EventType], Field(min_length=1, max_length=100)]
Name = Annotated[Text, Field(min_length=1, max_length=256)]


class EndpointCreate(Sent):
    name: Name
    url: Text
    event_types: EventTypes


class EndpointChangeSent(Sent):
    """What is left out stays.  `enabled` is ours."""

    name: Name | None = None
    url: Text | None = None
    event_types: EventTypes | None = None
    enabled: bool | None = None


class SecretRotate(Sent):
    keep_old_secret_active_for_24_hours: bool = False


class EndpointTest(Sent):
    event_type: EventType


class EndpointObject(Named):
    """`status` and what follows it are ours."""

    object: Literal["webhook_endpoint"] = "webhook_endpoint"
    created_at: int
    updated_at: int
    name: str
    url: str
    event_types: list[str]
    signing_secret_hint: str
    status: Literal["enabled", "disabled"]
    disabled_at: int | None
    disabled_reason: str | None

    @classmethod
    def of(cls, endpoint: WebhookEndpoint, secrets: Secrets) -> "EndpointObject":
        return cls.model_validate(_of_row(endpoint, secrets))


class EndpointWithSecret(EndpointObject):
    """The one answer that holds the secret."""

    signing_secret: str

    @classmethod
    def shown_once(
        cls, endpoint: WebhookEndpoint, secrets: Secrets, *, secret: str
    ) -> "EndpointWithSecret":
        return cls.model_validate(_of_row(endpoint, secrets) | {"signing_secret": secret})


def _of_row(endpoint: WebhookEndpoint, secrets: Secrets) -> dict[str, object]:
    return {
        "id": ids.public(ids.ENDPOINT, endpoint.id),
        "created_at": unix(endpoint.created_at),
        "updated_at": unix(endpoint.updated_at),
        "name": endpoint.name,
        "url": endpoint.url,
        "event_types": endpoint.event_types,
        "signing_secret_hint": endpoints.hint(secrets, endpoint),
        "status": "enabled" if endpoint.disabled_at is None else "disabled",
        "disabled_at": unix_or_none(endpoint.disabled_at),
        "disabled_reason": endpoint.disabled_reason,
    }


class DeletedEndpoint(Given):
    id: str
    object: Literal["webhook_endpoint.deleted"] = "webhook_endpoint.deleted"
    deleted: Literal[True] = True


class EndpointTested(Given):
    object: Literal["webhook_endpoint.test"] = "webhook_endpoint.test"
    webhook_endpoint_id: str
    event_type: str
    status_code: int
    success: Literal[True] = True


class EventTypeList(Given):
    object: Literal["list"] = "list"
    data: tuple[str, ...] = events.TYPES


class DeliveryQuery(PageQuery):
    endpoint_id: str | None = None
    status: DeliveryState | None = None


class DeliveryObject(Named):
    """`endpoint_id` is null where the address is a job's own `webhook_url`."""

    object: Literal["webhook_delivery"] = "webhook_delivery"
    endpoint_id: str | None
    event_id: str
    event_type: str
    url: str
    status: DeliveryState
    test: bool
    attempts: int
    created_at: int
    next_attempt_at: int | None
    delivered_at: int | None
    last_status: int | None
    last_error: str | None

    @classmethod
    def of(cls, view: DeliveryView) -> "DeliveryObject":
        row = view.delivery
        waits = row.state is DeliveryState.PENDING and row.owner is None
        return cls(
            id=ids.public(ids.DELIVERY, row.id),
            endpoint_id=row.endpoint_id and ids.public(ids.ENDPOINT, row.endpoint_id),
            event_id=ids.public(ids.EVENT, row.event_id),
            event_type=view.event_type,
            url=row.url,
            status=row.state,
            test=row.test,
            attempts=row.attempt,
            created_at=unix(row.created_at),
            next_attempt_at=unix(row.due_at) if waits else None,
            delivered_at=unix_or_none(row.delivered_at),
            last_status=row.last_status,
            last_error=row.last_error,
        )


class RangeAgain(Sent):
    """Times are those of the events, in unix seconds: from `since` to before `until`."""

    endpoint_id: Text
    since: Annotated[int, Field(ge=0, le=_LAST_SECOND)]
    until: Annotated[int, Field(ge=0, le=_LAST_SECOND)] = _LAST_SECOND
    failed_only: bool = True

    @model_validator(mode="after")
    def _forwards(self) -> "RangeAgain":
        if self.since >= self.until:
            raise ValueError("'since' must be before 'until'")
        return self


class RangeResult(Given):
    """`has_more`: it took the earliest ones; ask again for the others."""

    object: Literal["webhook_delivery.redelivery"] = "webhook_delivery.redelivery"
    redelivered: int
    has_more: bool
