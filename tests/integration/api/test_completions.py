"""Completions through the queue, answered in one call, as the official client makes it."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam
from sqlalchemy import text

from api.services import Services
from jobs import leases
from jobs.errors import BodyRefused
from jobs.leases import ShardLease
from tests.integration.api import working
from tests.integration.api.conftest import Tenant

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def claim(services: Services, model: str) -> ShardLease:
    """The request's shard as soon as it is there."""
    me, deadline = working.register(services, model), time.monotonic() + 10
    while time.monotonic() < deadline:
        with services.sessions.begin() as session:
            claimed = leases.claim(session, me, model=model, room=1, resident=[])
        if claimed:
            return claimed[0]
        time.sleep(0.02)
    raise AssertionError("no request came")


def test_a_chat_completion_comes_back_in_the_call(
    tenant: Tenant, services: Services, aside: ThreadPoolExecutor
) -> None:
    asked: Future[Any] = aside.submit(
        tenant.openai.chat.completions.create, model=tenant.model, messages=HELLO
    )

    lease = claim(services, tenant.model)
    working.answer(services, lease, "good day")

    found = asked.result(timeout=10)
    assert found.choices[0].message.content == "good day"
    assert found.usage.total_tokens == 5
    assert lease.interactive


def test_a_text_completion_too(
    tenant: Tenant, services: Services, aside: ThreadPoolExecutor
) -> None:
    asked: Future[Any] = aside.submit(
        tenant.openai.completions.create, model=tenant.model, prompt="one, two,"
    )

    working.answer(services, claim(services, tenant.model), " three")

    assert asked.result(timeout=10).choices[0].text == " three"


def test_what_the_engine_refuses_is_a_400_and_the_job_is_named(
    tenant: Tenant, services: Services, aside: ThreadPoolExecutor
) -> None:
    body = {"model": tenant.model, "messages": HELLO}
    asked = aside.submit(tenant.http.post, "/v1/chat/completions", json=body)

    error = BodyRefused("too long", param="messages", code="context_length_exceeded")
    working.refuse(services, claim(services, tenant.model), error)

    answer = asked.result(timeout=10)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    job = tenant.http.get(f"/v1/jobs/{answer.headers['X-Gristmill-Job']}").json()
    assert (job["status"], job["priority"]) == ("failed", "interactive")


@pytest.mark.parametrize(
    ("state", "status", "code"),
    [("cancelled", 409, "job_cancelled"), ("expired", 504, "timeout")],
)
def test_what_never_ran_is_told_to_whoever_waits(
    tenant: Tenant,
    services: Services,
    aside: ThreadPoolExecutor,
    state: str,
    status: int,
    code: str,
) -> None:
    body = {"model": tenant.model, "messages": HELLO}
    asked = aside.submit(tenant.http.post, "/v1/chat/completions", json=body)
    until(lambda: bool(jobs_of(tenant)))

    working.end_unrun(services, tenant.id, state)

    answer = asked.result(timeout=10)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("changes", "status", "param"),
    [
        ({"stream": 1}, 400, "stream"),
        ({"stream": True, "temperature": 9}, 400, "temperature"),
        ({"model": "nobody"}, 404, "model"),
        ({"temperature": 9}, 400, "temperature"),
        ({"messages": []}, 400, "messages"),
    ],
    ids=str,
)
def test_what_can_be_judged_at_once_is(
    tenant: Tenant, changes: dict[str, Any], status: int, param: str
) -> None:
    body = {"model": tenant.model, "messages": HELLO} | changes

    with pytest.raises(openai.APIStatusError) as refusal:
        tenant.openai.chat.completions.create(**body)

    assert (refusal.value.status_code, refusal.value.param) == (status, param)
    assert tenant.http.get("/v1/jobs").json()["data"] == []


def test_a_stream_is_what_the_official_client_gathers(
    tenant: Tenant, services: Services, aside: ThreadPoolExecutor
) -> None:
    def ask() -> list[ChatCompletionChunk]:
        return list(
            tenant.openai.chat.completions.create(
                model=tenant.model,
                messages=HELLO,
                stream=True,
                stream_options={"include_usage": True},
            )
        )

    asked = aside.submit(ask)
    working.answer(services, claim(services, tenant.model), "good day")
    *chunks, last = asked.result(timeout=10)

    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(delta.content or "" for delta in deltas) == "good day"
    assert deltas[0].role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, "stop"]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.total_tokens == 5
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}


def test_a_text_stream_too(tenant: Tenant, services: Services, aside: ThreadPoolExecutor) -> None:
    def ask() -> list[Completion]:
        return list(
            tenant.openai.completions.create(model=tenant.model, prompt="one,", stream=True)
        )

    asked = aside.submit(ask)
    working.answer(services, claim(services, tenant.model), " two")

    (only,) = asked.result(timeout=10)
    assert (only.choices[0].text, only.choices[0].finish_reason) == (" two", "stop")


def test_a_stream_that_the_engine_refuses_keeps_its_status(
    tenant: Tenant, services: Services, aside: ThreadPoolExecutor
) -> None:
    body = {"model": tenant.model, "messages": HELLO, "stream": True}
    asked = aside.submit(tenant.http.post, "/v1/chat/completions", json=body)

    working.refuse(services, claim(services, tenant.model), BodyRefused("too long"))

    assert asked.result(timeout=10).status_code == 400


def hang_up(tenant: Tenant, services: Services, headers: dict[str, str]) -> None:
    """Ask, and close the connection once the request is a job."""
    url = urlsplit(str(tenant.http.base_url))
    body = json.dumps({"model": tenant.model, "messages": HELLO}).encode()
    head = {"Authorization": f"Bearer {tenant.key}", "Content-Type": "application/json"} | headers
    connection = HTTPConnection(url.hostname or "", url.port or 0)
    connection.request("POST", "/v1/chat/completions", body=body, headers=head)
    until(lambda: bool(jobs_of(tenant)))
    connection.close()


def jobs_of(tenant: Tenant) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = tenant.http.get("/v1/jobs").json()["data"]
    return listed


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_client_that_hangs_up_cancels_what_it_waited_for(
    tenant: Tenant, services: Services
) -> None:
    hang_up(tenant, services, {})

    with services.sessions() as session:
        query = text("SELECT ends_as FROM jobs WHERE tenant_id = :id")

        def ends_as() -> str | None:
            session.rollback()
            found: str | None = session.scalar(query, {"id": tenant.id})
            return found

        until(lambda: ends_as() == "cancelled")


def test_with_an_idempotency_key_it_may_come_back_for_the_same_answer(
    tenant: Tenant, services: Services, aside: ThreadPoolExecutor
) -> None:
    key = {"Idempotency-Key": "again"}
    hang_up(tenant, services, key)
    asked: Future[Any] = aside.submit(
        tenant.openai.chat.completions.create,
        model=tenant.model,
        messages=HELLO,
        extra_headers=key,
    )

    working.answer(services, claim(services, tenant.model), "good day")

    assert asked.result(timeout=10).choices[0].message.content == "good day"
    assert len(jobs_of(tenant)) == 1
