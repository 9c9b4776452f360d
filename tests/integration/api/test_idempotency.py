"""Idempotency-Key: one effect for one key, also when it is sent twice at once."""

import threading
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest
from sqlalchemy import text

from api.services import Services
from tests.integration.api.conftest import Tenant

CHAT: Final = "/v1/chat/completions"
Post = Callable[[str, str | None], httpx.Response]
Sent = tuple[str, dict[str, Any]]


def _job(tenant: Tenant, content: str) -> Sent:
    body = {"messages": [{"role": "user", "content": content}]}
    return "/v1/jobs", {"json": {"model": tenant.model, "endpoint": CHAT, "body": body}}


def _batch(tenant: Tenant, content: str) -> Sent:
    file = tenant.openai.files.create(
        file=("in.jsonl", b"{}\n"), purpose="batch", extra_headers={"Idempotency-Key": "its file"}
    )
    body = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    return "/v1/batches", {"json": body | {"metadata": {"content": content}}}


def _file(tenant: Tenant, content: str) -> Sent:
    parts = [("purpose", (None, "batch")), ("file", ("a.jsonl", content.encode()))]
    return "/v1/files", {"files": parts}


def _upload(tenant: Tenant, content: str) -> Sent:
    body = {"bytes": 1, "filename": content, "mime_type": "text/plain", "purpose": "batch"}
    return "/v1/uploads", {"json": body}


def _part(tenant: Tenant, content: str) -> Sent:
    return _parts_of(tenant), {"files": [("data", ("a", content.encode()))]}


def _link(tenant: Tenant, content: str) -> Sent:
    return _parts_of(tenant), {"json": {"bytes": sum(content.encode())}}


def _endpoint(tenant: Tenant, content: str) -> Sent:
    body = {"name": content, "url": "https://example.com/", "event_types": ["job.failed"]}
    return "/v1/webhook_endpoints", {"json": body}


def _parts_of(tenant: Tenant) -> str:
    path, body = _upload(tenant, "a")
    headers = {"Idempotency-Key": "its upload"}
    return f"/v1/uploads/{tenant.http.post(path, headers=headers, **body).json()['id']}/parts"


@pytest.fixture(params=[_job, _batch, _file, _upload, _part, _link, _endpoint])
def post(request: pytest.FixtureRequest, tenant: Tenant) -> Post:
    """Creates an object of one kind from a text and an Idempotency-Key."""

    def send(content: str, key: str | None) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        path, body = request.param(tenant, content)
        return tenant.http.post(path, headers=headers, **body)

    return send


def test_the_same_key_and_body_give_the_first_answer_again(post: Post) -> None:
    first = post("one", "key")

    again = post("one", "key")

    assert first.status_code in (200, 202)
    assert (again.status_code, again.json()) == (first.status_code, first.json())


def test_the_same_key_with_another_body_is_a_conflict(post: Post) -> None:
    post("one", "key")

    answer = post("two", "key")

    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "idempotency_conflict"


def test_without_a_key_each_post_creates(post: Post) -> None:
    assert post("one", None).json()["id"] != post("one", None).json()["id"]


def test_another_key_creates_another(post: Post) -> None:
    assert post("one", "a").json()["id"] != post("one", "b").json()["id"]


def test_many_at_once_create_one(post: Post) -> None:
    answers: list[httpx.Response] = []
    barrier = threading.Barrier(8)

    def send() -> None:
        barrier.wait()
        answers.append(post("one", "key"))

    senders = [threading.Thread(target=send) for _ in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()

    assert {answer.is_success for answer in answers} == {True}
    assert len({answer.text for answer in answers}) == 1


def test_a_key_may_be_used_again_after_a_day(
    post: Post, tenant: Tenant, services: Services
) -> None:
    first = post("one", "key")
    with services.sessions.begin() as session:
        session.execute(
            text(
                "UPDATE idempotency_keys SET created_at = now() - interval '25 hours'"
                " WHERE tenant_id = :id"
            ),
            {"id": tenant.id},
        )

    later = post("two", "key")

    assert later.is_success
    assert later.json()["id"] != first.json()["id"]


def test_a_refused_request_leaves_its_key_free(tenant: Tenant) -> None:
    headers = {"Idempotency-Key": "key"}
    body: dict[str, Any] = {"model": "nobody", "endpoint": CHAT, "body": {}}
    body["body"] = {"messages": [{"role": "user", "content": "hi"}]}

    refused = tenant.http.post("/v1/jobs", json=body, headers=headers)
    accepted = tenant.http.post("/v1/jobs", json=body | {"model": tenant.model}, headers=headers)

    assert refused.status_code == 404
    assert accepted.status_code == 202


def test_one_key_for_two_kinds_of_object_is_a_conflict(tenant: Tenant) -> None:
    file = tenant.openai.files.create(
        file=("in.jsonl", b"{}\n"), purpose="batch", extra_headers={"Idempotency-Key": "key"}
    )

    answer = tenant.http.post(
        "/v1/batches",
        json={"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"},
        headers={"Idempotency-Key": "key"},
    )

    assert answer.status_code == 409


@pytest.mark.parametrize("key", ["", "k" * 256], ids=["empty", "too long"])
def test_a_key_that_is_empty_or_too_long_is_refused(post: Post, key: str) -> None:
    answer = post("one", key)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "Idempotency-Key"
