"""Completions through the queue, answered in one call, as the official client makes it."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

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
    ("changes", "status", "param"),
    [
        ({"stream": True}, 400, "stream"),
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
