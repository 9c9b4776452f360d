"""No tenant sees, uses, changes or learns of another's objects: they are 404, as if not there."""

from typing import Final

import pytest

from tests.integration.api.conftest import Tenant

CHAT: Final = "/v1/chat/completions"


@pytest.fixture
def owned(tenant: Tenant) -> dict[str, str]:
    """Ids of objects of the first tenant."""
    file = tenant.openai.files.create(file=("in.jsonl", b"{}\n"), purpose="batch")
    batch = tenant.openai.batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h"
    )
    body = {"messages": [{"role": "user", "content": "hi"}]}
    job = tenant.http.post("/v1/jobs", json={"model": tenant.model, "endpoint": CHAT, "body": body})
    hook = tenant.openai.webhooks.create(
        name="ours", url="https://example.com/", event_types=["batch.completed"]
    )
    return {"file": file.id, "batch": batch.id, "job": job.json()["id"], "hook": hook.id}


CALLS = (
    ("GET", "/v1/files/{file}"),
    ("GET", "/v1/files/{file}/content"),
    ("HEAD", "/v1/files/{file}/content"),
    ("GET", "/v1/files/{file}/content?redirect=true"),
    ("DELETE", "/v1/files/{file}"),
    ("GET", "/v1/files?after={file}"),
    ("GET", "/v1/batches/{batch}"),
    ("POST", "/v1/batches/{batch}/cancel"),
    ("GET", "/v1/batches?after={batch}"),
    ("GET", "/v1/jobs/{job}"),
    ("GET", "/v1/jobs/{job}?wait=1"),
    ("POST", "/v1/jobs/{job}/cancel"),
    ("GET", "/v1/jobs?after={job}"),
    ("GET", "/v1/webhook_endpoints/{hook}"),
    ("POST", "/v1/webhook_endpoints/{hook}"),
    ("DELETE", "/v1/webhook_endpoints/{hook}"),
    ("POST", "/v1/webhook_endpoints/{hook}/rotate_secret"),
    ("GET", "/v1/webhook_endpoints?after={hook}"),
)


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_anothers_object_is_a_404_and_stays_as_it_was(
    tenant: Tenant, other: Tenant, owned: dict[str, str], method: str, path: str
) -> None:
    answer = other.http.request(method, path.format(**owned))

    assert answer.status_code == 404
    assert tenant.http.get(f"/v1/files/{owned['file']}/content").content == b"{}\n"
    assert tenant.openai.batches.retrieve(owned["batch"]).status == "validating"
    assert tenant.http.get(f"/v1/jobs/{owned['job']}").json()["status"] == "queued"
    assert tenant.openai.webhooks.retrieve(owned["hook"]).name == "ours"


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches", "/v1/jobs", "/v1/webhook_endpoints"])
def test_anothers_objects_are_not_listed(other: Tenant, owned: dict[str, str], path: str) -> None:
    assert other.http.get(path).json()["data"] == []


def test_anothers_file_is_no_input_for_a_batch(other: Tenant, owned: dict[str, str]) -> None:
    answer = other.http.post(
        "/v1/batches",
        json={"input_file_id": owned["file"], "endpoint": CHAT, "completion_window": "24h"},
    )

    assert answer.status_code == 404
    assert other.http.get("/v1/batches").json()["data"] == []


def test_a_404_for_anothers_object_is_that_of_one_that_never_was(
    other: Tenant, owned: dict[str, str]
) -> None:
    anothers = other.http.get(f"/v1/jobs/{owned['job']}")
    nobodys = other.http.get("/v1/jobs/job_" + "0" * 32)

    assert anothers.text == nobodys.text


def test_the_same_idempotency_key_of_two_tenants_is_two_keys(tenant: Tenant, other: Tenant) -> None:
    created = []
    for each in (tenant, other):
        body = {"messages": [{"role": "user", "content": "hi"}]}
        answer = each.http.post(
            "/v1/jobs",
            json={"model": tenant.model, "endpoint": CHAT, "body": body},
            headers={"Idempotency-Key": "the same"},
        )
        created.append(answer.json()["id"])

    assert created[0] != created[1]
