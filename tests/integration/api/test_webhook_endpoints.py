"""Webhook endpoints and deliveries, managed by the official client and by calls of our own."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import openai
import pytest
from sqlalchemy import text

from api.routes import webhook_endpoints
from api.services import Services
from cli.webhook_receiver import receiving
from jobs import endpoints, events, workers
from jobs.models import JobKind, JobState, WorkerKind
from jobs.workers import Identity
from tests.fixtures.workers import STILL
from tests.integration.api.conftest import Tenant
from worker.control.courier import Courier
from worker.control.hands import Hands
from worker.control.webhooks import WebhookSender
from worker.process import Timer

URL = "https://example.com/hook"
DEADLINE = 10.0


def create(tenant: Tenant, **changes: Any) -> Any:
    wanted = {"name": "ours", "url": URL, "event_types": ["batch.completed"]} | changes
    return tenant.openai.webhooks.create(**wanted)


@pytest.fixture
def sending(services: Services) -> Iterator[None]:
    """A control process's threads that send, beside this API."""
    me = uuid4()
    with services.sessions.begin() as session:
        identity = Identity(me, WorkerKind.CONTROL, None, "test", 1)
        workers.register(session, identity, ttl=STILL.ttl)
    hands = Hands(services.sessions, me=lambda: me)
    sender = WebhookSender(services.sessions, services.secrets, hands=hands, allow_private=True)
    courier = Courier(sender.deliver_next)

    def ring() -> None:
        courier.call()

    look = Timer(ring, interval=0.05, name="look")
    courier.start()
    look.start()
    yield
    look.stop()
    courier.stop()


def add_private(services: Services, tenant: Tenant, url: str) -> tuple[str, str]:
    """An endpoint on this machine, which this API would refuse; its id and secret."""
    with services.sessions.begin() as session:
        made, secret = endpoints.create(
            session,
            services.secrets,
            tenant_id=tenant.id,
            name="here",
            url=url,
            event_types=events.TYPES,
        )
    return f"whe_{made.id.hex}", secret


def test_the_official_client_manages_endpoints(tenant: Tenant) -> None:
    client = tenant.openai.webhooks
    made = create(tenant)
    other = create(tenant, name="other")

    read = client.retrieve(made.id)
    assert (read.name, read.url, read.event_types) == ("ours", URL, ["batch.completed"])
    assert read.object == "webhook_endpoint"
    assert [found.id for found in client.list()] == [other.id, made.id]
    assert [found.id for found in client.list(limit=1)] == [other.id, made.id]

    changed = client.update(made.id, name="renamed", event_types=["batch.failed"])
    assert (changed.name, changed.url, changed.event_types) == ("renamed", URL, ["batch.failed"])

    assert client.event_types.list().data == list(events.TYPES)

    gone = client.delete(made.id)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "webhook_endpoint.deleted")
    with pytest.raises(openai.NotFoundError):
        client.retrieve(made.id)
    assert [found.id for found in client.list(after=made.id)] == []
    assert [found.id for found in client.list()] == [other.id]


def test_a_secret_is_shown_as_it_is_made_and_never_again(tenant: Tenant) -> None:
    made = create(tenant)
    rotated = tenant.openai.webhooks.rotate_secret(made.id)

    assert made.signing_secret.startswith("whsec_")
    assert rotated.signing_secret != made.signing_secret
    assert rotated.signing_secret_hint == "whsec_…" + rotated.signing_secret[-4:]
    for path in ("", f"/{made.id}"):
        shown = tenant.http.get(f"/v1/webhook_endpoints{path}").text
        assert rotated.signing_secret not in shown
        assert "signing_secret_hint" in shown


def test_only_a_change_moves_updated_at(services: Services, tenant: Tenant) -> None:
    made = create(tenant)
    with services.sessions.begin() as session:
        session.execute(
            text("UPDATE webhook_endpoints SET updated_at = to_timestamp(1) WHERE id = :id"),
            {"id": UUID(made.id.removeprefix("whe_"))},
        )

    unchanged = tenant.openai.webhooks.update(made.id, name="ours")
    changed = tenant.openai.webhooks.update(made.id, name="new")

    assert unchanged.updated_at == 1
    assert changed.updated_at is not None
    assert changed.updated_at > 1


def test_the_same_idempotency_key_makes_one_endpoint_and_its_secret_is_kept_sealed(
    services: Services, tenant: Tenant
) -> None:
    headers = {"Idempotency-Key": "once"}

    first, second = create(tenant, extra_headers=headers), create(tenant, extra_headers=headers)
    rotated = [
        tenant.openai.webhooks.rotate_secret(first.id, extra_headers={"Idempotency-Key": "twice"})
        for _ in range(2)
    ]

    assert (first.id, first.signing_secret) == (second.id, second.signing_secret)
    assert rotated[0] == rotated[1]
    with services.sessions() as session:
        query = text("SELECT response FROM idempotency_keys WHERE tenant_id = :id")
        kept = "".join(session.scalars(query, {"id": tenant.id}))
    assert kept
    for secret in (first.signing_secret, rotated[0].signing_secret, first.id):
        assert secret not in kept


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"url": "http://example.com/"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"url": "https://example.com:22/"}, "url"),
        ({"event_types": []}, "event_types"),
        ({"event_types": ["response.completed"]}, "event_types.0"),
        ({"name": ""}, "name"),
        ({"name": "x" * 257}, "name"),
    ],
)
def test_what_could_not_work_is_refused(tenant: Tenant, change: Any, param: str) -> None:
    made = create(tenant)

    for call in (lambda: create(tenant, **change), lambda: update(tenant, made.id, change)):
        with pytest.raises(openai.BadRequestError) as refusal:
            call()
        assert (refusal.value.code, refusal.value.param) == ("invalid_value", param)


def update(tenant: Tenant, endpoint_id: str, change: Any) -> Any:
    return tenant.openai.webhooks.update(endpoint_id, **change)


@pytest.mark.usefixtures("sending")
def test_a_sample_is_sent_and_the_official_client_verifies_it(
    services: Services, tenant: Tenant
) -> None:
    with receiving() as receiver:
        endpoint_id, secret = add_private(services, tenant, receiver.url)
        result = tenant.openai.webhooks.test(endpoint_id, event_type="batch.failed")
        posted = receiver.next(timeout=DEADLINE)

    assert (result.status_code, result.success) == (204, True)
    assert (result.webhook_endpoint_id, result.event_type) == (endpoint_id, "batch.failed")
    event = tenant.openai.webhooks.unwrap(posted.body, posted.headers, secret=secret)
    assert event.type == "batch.failed"
    assert json.loads(posted.body)["data"] == {"id": "batch_" + "0" * 32}


@pytest.mark.usefixtures("sending")
def test_a_sample_that_nobody_answers_is_no_success(services: Services, tenant: Tenant) -> None:
    endpoint_id, _ = add_private(services, tenant, "http://127.0.0.1:1/")

    with pytest.raises(openai.APIStatusError) as refusal:
        tenant.openai.webhooks.test(endpoint_id, event_type="batch.failed")

    assert (refusal.value.status_code, refusal.value.code) == (424, "endpoint_unreachable")
    (delivery,) = tenant.http.get("/v1/webhook_deliveries").json()["data"]
    assert (delivery["status"], delivery["test"]) == ("failed", True)


def test_without_a_control_process_a_sample_is_not_waited_for_for_ever(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_endpoints, "_TEST_LOOKS", 1)

    with pytest.raises(openai.APIStatusError) as refusal:
        tenant.openai.webhooks.test(create(tenant).id, event_type="batch.failed")

    assert (refusal.value.status_code, refusal.value.code) == (504, "timeout")


def test_deliveries_are_listed_and_sent_again(services: Services, tenant: Tenant) -> None:
    endpoint_id = create(tenant, event_types=["job.cancelled"]).id
    other_id = create(tenant, event_types=["job.cancelled"]).id
    cancelled_job(tenant, services)
    deliveries = tenant.http.get("/v1/webhook_deliveries").json()["data"]
    (one,) = tenant.http.get(f"/v1/webhook_deliveries?endpoint_id={endpoint_id}").json()["data"]
    fail_all(services, tenant)

    again = tenant.http.post(f"/v1/webhook_deliveries/{one['id']}/redeliver").json()
    ranged = tenant.http.post(
        "/v1/webhook_deliveries/redeliver",
        json={"endpoint_id": other_id, "since": one["created_at"]},
    )

    assert {each["endpoint_id"] for each in deliveries} == {endpoint_id, other_id}
    assert (one["status"], one["event_type"], one["attempts"]) == ("pending", "job.cancelled", 0)
    assert (again["id"], again["event_id"]) == (one["id"], one["event_id"])
    assert again["status"] == "pending"
    assert ranged.json() | {"object": ""} == {"object": "", "redelivered": 1, "has_more": False}
    assert tenant.http.get("/v1/webhook_deliveries?status=failed").json()["data"] == []
    assert tenant.http.get(f"/v1/webhook_deliveries/{one['id']}").json() == again


def cancelled_job(tenant: Tenant, services: Services) -> None:
    """A job's terminal event, written by the function that writes it."""
    body = {"messages": [{"role": "user", "content": "hi"}]}
    job = {"model": tenant.model, "endpoint": "/v1/chat/completions", "body": body}
    job_id = UUID(tenant.http.post("/v1/jobs", json=job).json()["id"].removeprefix("job_"))
    with services.sessions.begin() as session:
        events.add(
            session,
            job_id,
            JobKind.REQUEST,
            state=JobState.CANCELLED,
            webhook_url=None,
        )


def fail_all(services: Services, tenant: Tenant) -> None:
    with services.sessions.begin() as session:
        failed = "UPDATE deliveries SET state = 'failed' WHERE tenant_id = :tenant_id"
        session.execute(text(failed), {"tenant_id": tenant.id})


def test_a_disabled_endpoint_says_so_and_takes_nothing_until_it_is_enabled(
    tenant: Tenant,
) -> None:
    endpoint_id = create(tenant).id
    path = f"/v1/webhook_endpoints/{endpoint_id}"

    disabled = tenant.http.post(path, json={"enabled": False}).json()
    refused = tenant.http.post(
        "/v1/webhook_deliveries/redeliver", json={"endpoint_id": endpoint_id, "since": 0}
    )
    enabled = tenant.http.post(path, json={"enabled": True}).json()

    assert (disabled["status"], disabled["disabled_reason"]) == (
        "disabled",
        "disabled by its owner",
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_allowed_now")
    assert (enabled["status"], enabled["disabled_at"]) == ("enabled", None)
