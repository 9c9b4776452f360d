"""`/v1/jobs`: created, waited for, listed, cancelled."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from redis import Redis

from api.services import Services
from jobs import leases
from jobs.doorbell import KEY_PREFIX, inference_queue
from jobs.errors import BodyRefused
from tests.fixtures.broker import Broker
from tests.integration.api import working
from tests.integration.api.conftest import Tenant

CHAT: Final = "/v1/chat/completions"


def job_body(tenant: Tenant, **changes: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    return {"model": tenant.model, "endpoint": CHAT, "body": body, **changes}


def create(tenant: Tenant, **changes: Any) -> dict[str, Any]:
    answer = tenant.http.post("/v1/jobs", json=job_body(tenant, **changes))
    assert answer.status_code == 202, answer.text
    created: dict[str, Any] = answer.json()
    return created


def read(tenant: Tenant, job_id: str, **query: Any) -> dict[str, Any]:
    answer = tenant.http.get(f"/v1/jobs/{job_id}", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_new_job_is_queued_with_every_field_of_the_contract(tenant: Tenant) -> None:
    job = create(tenant, metadata={"for": "test"}, expires_in=3600)

    assert job["id"].startswith("job_")
    assert job["object"] == "job"
    assert job["status"] == "queued"
    assert (job["model"], job["endpoint"]) == (tenant.model, CHAT)
    assert job["expires_at"] == job["created_at"] + 3600
    assert job["metadata"] == {"for": "test"}
    assert job["priority"] == "bulk"
    for unset in ("started_at", "finished_at", "response", "error", "webhook_url"):
        assert job[unset] is None
    assert job["usage"]["total_tokens"] == 0


def test_a_job_without_a_worker_says_that_it_waits_for_one(tenant: Tenant) -> None:
    job = create(tenant)

    assert job["queue"] == {
        "position": 1,
        "eta_seconds": None,
        "reason": f"no worker for the model {tenant.model} is alive",
    }


def test_a_job_says_how_many_are_ahead_of_it(tenant: Tenant, services: Services) -> None:
    working.register(services, tenant.model)
    create(tenant)
    bulk = create(tenant)

    create(tenant, priority="interactive")  # goes first

    assert read(tenant, bulk["id"])["queue"]["position"] == 3


def test_a_claimed_job_is_in_progress(tenant: Tenant, services: Services) -> None:
    job = create(tenant)

    working.claim_one(services, tenant.model)

    found = read(tenant, job["id"])
    assert found["status"] == "in_progress"
    assert found["started_at"] is not None
    assert found["queue"] is None


def test_the_worker_finds_the_request_as_it_was_sent(tenant: Tenant, services: Services) -> None:
    messages = [{"role": "user", "content": "zero \u0000, emoji \U0001f600"}]
    create(tenant, body={"messages": messages, "max_tokens": 4})

    lease = working.claim_one(services, tenant.model)

    assert json.loads(lease.inline or "") == {
        "custom_id": None,
        "body": {"messages": messages, "max_tokens": 4, "model": tenant.model},
    }


def test_a_finished_job_has_its_response_and_usage(tenant: Tenant, services: Services) -> None:
    job = create(tenant)
    working.answer(services, working.claim_one(services, tenant.model), "hello")

    found = read(tenant, job["id"])

    assert found["status"] == "completed"
    assert found["finished_at"] is not None
    assert found["error"] is None
    assert found["response"]["status_code"] == 200
    choice = found["response"]["body"]["choices"][0]
    assert choice["message"]["content"] == "hello"
    assert found["usage"]["total_tokens"] == 5
    assert found["usage"]["input_tokens_details"]["cached_tokens"] == 3


def test_a_job_that_the_engine_refuses_is_failed_with_a_400(
    tenant: Tenant, services: Services
) -> None:
    job = create(tenant)
    error = BodyRefused("too long", param="messages", code="context_length_exceeded")
    working.refuse(services, working.claim_one(services, tenant.model), error)

    found = read(tenant, job["id"])

    assert found["status"] == "failed"
    assert found["error"] is None
    assert found["response"]["status_code"] == 400
    assert found["response"]["body"]["error"]["code"] == "context_length_exceeded"


def test_waiting_ends_when_the_job_does(tenant: Tenant, services: Services) -> None:
    job = create(tenant)
    lease = working.claim_one(services, tenant.model)
    found: list[dict[str, Any]] = []
    client = threading.Thread(target=lambda: found.append(read(tenant, job["id"], wait=20)))

    client.start()
    working.answer(services, lease, "hello")
    client.join()

    assert found[0]["status"] == "completed"
    assert found[0]["response"]["body"]["choices"][0]["message"]["content"] == "hello"


def test_waiting_for_a_finished_job_returns_at_once(tenant: Tenant, services: Services) -> None:
    job = create(tenant)
    working.answer(services, working.claim_one(services, tenant.model), "hello")

    began = time.monotonic()
    found = read(tenant, job["id"], wait=20)

    assert found["status"] == "completed"
    assert time.monotonic() - began < 5


def test_a_wait_that_runs_out_answers_with_the_present_state(tenant: Tenant) -> None:
    job = create(tenant)

    began = time.monotonic()
    found = read(tenant, job["id"], wait=0.3)

    assert found["status"] == "queued"
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("wait", ["61", "-1", "nan", "soon"])
def test_a_wait_out_of_bounds_is_refused(tenant: Tenant, wait: str) -> None:
    job = create(tenant)

    answer = tenant.http.get(f"/v1/jobs/{job['id']}", params={"wait": wait})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "wait"


@pytest.mark.parametrize("prefer", ["wait=20", "respond-async, wait=20", "Wait = 20; foo"])
def test_prefer_wait_holds_the_answer_of_the_post(
    tenant: Tenant, services: Services, prefer: str
) -> None:
    answers: list[Any] = []

    def post() -> None:
        headers = {"Prefer": prefer}
        answers.append(tenant.http.post("/v1/jobs", json=job_body(tenant), headers=headers))

    client = threading.Thread(target=post)
    client.start()
    while not tenant.http.get("/v1/jobs").json()["data"]:
        pass
    working.answer(services, working.claim_one(services, tenant.model), "hello")
    client.join()

    assert answers[0].status_code == 202
    assert answers[0].json()["status"] == "completed"


def test_many_waiting_clients_are_all_let_go(tenant: Tenant, services: Services) -> None:
    created = [create(tenant) for _ in range(60)]  # more than the server has threads
    found: list[dict[str, Any]] = []
    clients = [
        threading.Thread(target=lambda id_=job["id"]: found.append(read(tenant, id_, wait=20)))
        for job in created
    ]

    for client in clients:
        client.start()
    for _ in created:
        working.answer(services, working.claim_one(services, tenant.model), "hello")
    for client in clients:
        client.join()

    assert [job["status"] for job in found] == ["completed"] * 60


def test_jobs_are_listed_newest_first_and_page_by_page(tenant: Tenant) -> None:
    created = [create(tenant)["id"] for _ in range(5)]

    first = tenant.http.get("/v1/jobs", params={"limit": 3}).json()
    rest = tenant.http.get("/v1/jobs", params={"limit": 3, "after": first["last_id"]}).json()

    listed = [job["id"] for job in first["data"] + rest["data"]]
    assert listed == created[::-1]
    assert (first["has_more"], rest["has_more"]) == (True, False)


def test_a_cancelled_job_does_not_run(tenant: Tenant, services: Services) -> None:
    job = create(tenant)

    answer = tenant.http.post(f"/v1/jobs/{job['id']}/cancel")

    assert answer.status_code == 200
    me = working.register(services, tenant.model)
    with services.sessions.begin() as session:
        assert leases.claim(session, me, model=tenant.model, room=1, resident=[]) == []


@pytest.mark.parametrize("state", ["cancelled", "expired"])
def test_a_job_that_never_ran_says_why(tenant: Tenant, services: Services, state: str) -> None:
    job = create(tenant)

    working.end_unrun(services, tenant.id, state)

    found = tenant.http.get(f"/v1/jobs/{job['id']}").json()
    assert (found["status"], found["response"]) == (state, None)
    assert found["error"]["code"] == f"job_{state}"


def test_a_finished_job_cannot_be_cancelled(tenant: Tenant, services: Services) -> None:
    job = create(tenant)
    working.answer(services, working.claim_one(services, tenant.model), "hello")

    answer = tenant.http.post(f"/v1/jobs/{job['id']}/cancel")

    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "not_allowed_now"
    assert answer.json()["error"]["message"].startswith("This job is completed")


LOSSES: dict[str, Callable[[bytes], bytes] | None] = {
    "a byte changed": lambda line: line.replace(b"hello", b"hallo"),
    "its end cut off": lambda line: line[:-10],
    "gone": None,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_result_that_is_not_as_it_was_written_is_said_to_be_lost(
    tenant: Tenant, services: Services, loss: str
) -> None:
    job, damage = create(tenant), LOSSES[loss]
    lease = working.claim_one(services, tenant.model)
    working.answer(services, lease, "hello")
    key = working.key_of(lease)

    if damage is None:
        services.storage.delete([key])
    else:
        services.storage.put(key, damage(services.storage.read(key)))
    found = read(tenant, job["id"])

    assert (found["status"], found["response"]) == ("completed", None)
    assert found["error"]["code"] == "result_lost"


def test_a_new_job_rings_its_models_queue(tenant: Tenant, api_broker: Broker) -> None:
    create(tenant)

    with Redis.from_url(api_broker.url) as broker:
        bell = broker.blpop([KEY_PREFIX + inference_queue(tenant.model)], timeout=10)

    assert bell is not None


REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "an unknown model": ({"model": "nobody"}, 404, "model_not_found", "model"),
    "an unknown endpoint": ({"endpoint": "/v1/embeddings"}, 400, "invalid_value", "endpoint"),
    "a body without messages": ({"body": {}}, 400, "missing_required_parameter", "messages"),
    "a misspelt parameter of the body": (
        {"body": {"messages": [{"role": "user", "content": "hi"}], "temprature": 1}},
        400,
        "unknown_parameter",
        "temprature",
    ),
    "a streamed answer": (
        {"body": {"messages": [{"role": "user", "content": "hi"}], "stream": True}},
        400,
        "invalid_value",
        "stream",
    ),
    "two models": ({"body": {"model": "another"}}, 400, "invalid_value", "body.model"),
    "a misspelt parameter": ({"webhok_url": "x"}, 400, "unknown_parameter", "webhok_url"),
    "a priority that is none": ({"priority": "high"}, 400, "invalid_value", "priority"),
    "a time that is a string": ({"expires_in": "60"}, 400, "invalid_value", "expires_in"),
    "a time beyond a month": ({"expires_in": 10**9}, 400, "invalid_value", "expires_in"),
    "metadata that is no text": ({"metadata": {"a": 1}}, 400, "invalid_value", "metadata.a"),
    "metadata with U+0000": ({"metadata": {"a": "\x00"}}, 400, "invalid_value", "metadata.a"),
    "a model with U+0000": ({"model": "a\x00"}, 400, "invalid_value", "model"),
    "a webhook without TLS": (
        {"webhook_url": "http://example.com/"},
        400,
        "invalid_value",
        "webhook_url",
    ),
    "a body that is a list": ({"body": []}, 400, "invalid_value", "body"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_can_be_judged_at_once_is_refused_by_the_post(tenant: Tenant, case: str) -> None:
    changes, status, code, param = REFUSED[case]

    answer = tenant.http.post("/v1/jobs", json=job_body(tenant, **changes))

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
    assert tenant.http.get("/v1/jobs").json()["data"] == []
