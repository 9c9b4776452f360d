"""Over a quota a call is 429, says which and when to come again, and has done nothing."""

from typing import Any, Final

import httpx

from api.services import Services
from jobs import quotas
from jobs.quotas import Limits
from tests.integration.api.conftest import Tenant

CHAT: Final = "/v1/chat/completions"


def limit(services: Services, tenant: Tenant, **limits: Any) -> None:
    wanted = Limits(**{**dict.fromkeys(Limits.__annotations__), **limits})
    with services.sessions.begin() as session:
        quotas.set_limits(session, tenant_id=tenant.id, limits=wanted)


def post_job(tenant: Tenant) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    job = {"model": tenant.model, "endpoint": CHAT, "body": body}
    return tenant.http.post("/v1/jobs", json=job)


def post_file(tenant: Tenant, content: bytes = b"{}\n") -> httpx.Response:
    return tenant.http.post(
        "/v1/files", files={"file": ("a.jsonl", content)}, data={"purpose": "batch"}
    )


def post_batch(tenant: Tenant, file_id: str) -> httpx.Response:
    return tenant.http.post(
        "/v1/batches",
        json={"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"},
    )


def assert_over(answer: httpx.Response, code: str) -> None:
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == (code, "rate_limit_error")


def test_a_job_over_a_quota_is_refused(services: Services, tenant: Tenant) -> None:
    limit(services, tenant, queued_requests=1)
    assert post_job(tenant).status_code == 202
    assert_over(post_job(tenant), "quota_exceeded")

    limit(services, tenant, queued_tokens=10)
    assert_over(post_job(tenant), "token_limit_exceeded")
    assert len(tenant.http.get("/v1/jobs").json()["data"]) == 1


def test_a_completion_over_a_quota_is_refused(services: Services, tenant: Tenant) -> None:
    limit(services, tenant, queued_requests=0)

    messages = [{"role": "user", "content": "hi"}]
    answer = tenant.http.post(CHAT, json={"model": tenant.model, "messages": messages})

    assert_over(answer, "quota_exceeded")


def test_a_batch_over_a_quota_is_refused(services: Services, tenant: Tenant) -> None:
    file_id = post_file(tenant, b"x" * 400).json()["id"]
    limit(services, tenant, queued_tokens=99)
    assert_over(post_batch(tenant, file_id), "token_limit_exceeded")

    limit(services, tenant, active_batches=1)
    assert post_batch(tenant, file_id).status_code == 200
    assert_over(post_batch(tenant, file_id), "quota_exceeded")
    assert len(tenant.http.get("/v1/batches").json()["data"]) == 1


def test_a_file_that_does_not_fit_is_refused_and_leaves_nothing(
    services: Services, tenant: Tenant
) -> None:
    limit(services, tenant, storage_bytes=100)
    assert_over(post_file(tenant, b"x" * 101), "quota_exceeded")
    folder = f"t/{tenant.id.hex}/"
    assert list(services.storage.objects(folder)) == []

    assert post_file(tenant, b"x" * 100).status_code == 200
    assert_over(post_file(tenant), "quota_exceeded")
    upload = {"bytes": 1, "filename": "a", "mime_type": "text/plain", "purpose": "batch"}
    assert_over(tenant.http.post("/v1/uploads", json=upload), "quota_exceeded")


def test_calls_over_the_rate_are_refused_whatever_they_ask(
    services: Services, tenant: Tenant
) -> None:
    limit(services, tenant, requests_per_second=0.01)

    first, second = tenant.http.get("/v1/models"), tenant.http.get("/v1/batches")

    assert first.status_code == 200
    assert_over(second, "rate_limit_exceeded")
    assert second.headers["Retry-After"] == "100"


def test_a_tenant_sees_what_it_has_and_may_have(services: Services, tenant: Tenant) -> None:
    limit(services, tenant, queued_requests=10, storage_bytes=1000)
    post_job(tenant)
    post_file(tenant, b"x" * 40)

    seen = tenant.http.get("/v1/quotas").json()

    assert seen["queued_requests"] == {"used": 1, "limit": 10}
    assert seen["storage_bytes"] == {"used": 40, "limit": 1000}
    assert seen["active_batches"] == {"used": 0, "limit": None}
    assert seen["queued_tokens"]["used"] > 0
    assert seen["requests_per_second"] is None


def test_the_same_key_may_try_again_once_there_is_room(services: Services, tenant: Tenant) -> None:
    limit(services, tenant, queued_requests=0)
    body = {"messages": [{"role": "user", "content": "hi"}]}
    job = {"model": tenant.model, "endpoint": CHAT, "body": body}
    key = {"Idempotency-Key": "one"}
    refused = tenant.http.post("/v1/jobs", json=job, headers=key)

    limit(services, tenant)
    taken = tenant.http.post("/v1/jobs", json=job, headers=key)

    assert (refused.status_code, taken.status_code) == (429, 202)
