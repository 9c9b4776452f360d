"""Files that stay in a tenant's own bucket, and outputs that go there."""

import hashlib
from typing import Any

import httpx
import pytest

from api.services import Services
from jobs import locations, tenants
from jobs.storage import Storage
from tests.integration.api.conftest import MAX_FILE, Tenant

LINES = b'{"a": 1}\n{"b": "\xff is no text"}\n'


def allow(services: Services, tenant: Tenant, uri: str) -> None:
    with services.sessions.begin() as session:
        folder = locations.parse_folder(uri, param="prefix")
        tenants.allow(session, tenant_id=tenant.id, folder=folder)


@pytest.fixture
def source(services: Services, tenant: Tenant, outside: Storage) -> str:
    """An object under a prefix that the tenant may use."""
    allow(services, tenant, f"s3://{outside.bucket}/in")
    outside.put("in/a.jsonl", LINES)
    return f"s3://{outside.bucket}/in/a.jsonl"


def register(tenant: Tenant, source: str, **changes: Any) -> httpx.Response:
    body = {"source": source, "purpose": "batch", **changes}
    return tenant.http.post("/v1/files", json=body)


def test_a_file_by_reference_is_read_where_it_lies(tenant: Tenant, source: str) -> None:
    answer = register(tenant, source, expires_after={"anchor": "created_at", "seconds": 3600})

    file = answer.json()
    assert answer.status_code == 200
    assert file["s3_uri"] == source
    assert (file["filename"], file["bytes"], file["lines"]) == ("a.jsonl", len(LINES), 2)
    assert file["sha256"] == hashlib.sha256(LINES).hexdigest()
    assert file["expires_at"] == file["created_at"] + 3600
    assert tenant.openai.files.retrieve(file["id"]).purpose == "batch"
    assert tenant.openai.files.content(file["id"]).content == LINES


def test_a_redirect_leads_to_the_tenants_own_object(tenant: Tenant, source: str) -> None:
    file_id = register(tenant, source).json()["id"]

    answer = tenant.http.get(f"/v1/files/{file_id}/content", params={"redirect": "true"})

    assert httpx.get(answer.headers["location"]).content == LINES


@pytest.mark.parametrize("query", ["", "?redirect=true"])
def test_a_changed_object_is_refused(
    tenant: Tenant, source: str, outside: Storage, query: str
) -> None:
    file_id = register(tenant, source).json()["id"]
    outside.put("in/a.jsonl", LINES[::-1])

    answer = tenant.http.get(f"/v1/files/{file_id}/content{query}")

    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "file_changed"


def test_a_deleted_reference_leaves_the_object(
    tenant: Tenant, source: str, outside: Storage
) -> None:
    file_id = register(tenant, source).json()["id"]

    tenant.openai.files.delete(file_id)

    assert tenant.http.get(f"/v1/files/{file_id}").status_code == 404
    assert outside.read("in/a.jsonl") == LINES


def test_only_what_the_operator_allowed_may_be_named(
    tenant: Tenant, other: Tenant, services: Services, source: str, outside: Storage
) -> None:
    outside.put("inner/a.jsonl", LINES)

    beside = register(tenant, f"s3://{outside.bucket}/inner/a.jsonl")
    of_another = register(other, source)

    for answer in (beside, of_another):
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "not_permitted"
        assert answer.json()["error"]["param"] == "source"


def test_our_own_bucket_is_nobodys_whatever_is_allowed(tenant: Tenant, services: Services) -> None:
    own = services.storage
    allow(services, tenant, f"s3://{own.bucket}/")
    own.put("theirs.jsonl", LINES)

    assert register(tenant, f"s3://{own.bucket}/theirs.jsonl").status_code == 403


def test_a_prefix_that_is_withdrawn_is_allowed_no_more(
    tenant: Tenant, services: Services, source: str, outside: Storage
) -> None:
    with services.sessions.begin() as session:
        folder = locations.parse_folder(f"s3://{outside.bucket}/in", param="prefix")
        tenants.forbid(session, tenant_id=tenant.id, folder=folder)

    assert register(tenant, source).status_code == 403


def test_an_object_that_is_not_there_or_too_large_is_refused(
    tenant: Tenant, source: str, outside: Storage
) -> None:
    outside.put("in/large", b"x" * (MAX_FILE + 1))

    missing = register(tenant, source + "x")
    large = register(tenant, f"s3://{outside.bucket}/in/large")

    assert (missing.status_code, missing.json()["error"]["param"]) == (404, "source")
    assert (large.status_code, large.json()["error"]["param"]) == (413, "source")


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"source": "s3://a"}, "source"),
        ({"source": "s3://bucket/../key"}, "source"),
        ({"purpose": "vision"}, "purpose"),
        ({"filename": "a"}, "filename"),
        ({"expires_after": {"anchor": "created_at", "seconds": 1}}, "expires_after.seconds"),
    ],
)
def test_a_reference_that_is_wrong_is_refused(
    tenant: Tenant, source: str, changes: dict[str, Any], param: str
) -> None:
    answer = register(tenant, **({"source": source} | changes))

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_the_same_key_registers_once(tenant: Tenant, source: str) -> None:
    body = {"source": source, "purpose": "batch"}
    headers = {"Idempotency-Key": "one"}

    first, again = (tenant.http.post("/v1/files", json=body, headers=headers) for _ in range(2))

    assert first.json() == again.json()
    assert len(list(tenant.openai.files.list())) == 1


def create_batch(tenant: Tenant, output_prefix: str) -> httpx.Response:
    file = tenant.openai.files.create(file=("in.jsonl", b"{}\n"), purpose="batch")
    body = {
        "input_file_id": file.id,
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "output_prefix": output_prefix,
    }
    return tenant.http.post("/v1/batches", json=body)


def test_outputs_may_go_where_the_tenant_may_write(
    tenant: Tenant, source: str, outside: Storage
) -> None:
    answer = create_batch(tenant, f"s3://{outside.bucket}/in/out")

    assert answer.status_code == 200
    assert answer.json()["output_prefix"] == f"s3://{outside.bucket}/in/out/"


@pytest.mark.parametrize(
    ("folder", "status"), [("s3://{}/elsewhere", 403), ("s3://{}/in/../x", 400), ("{}", 400)]
)
def test_outputs_go_nowhere_else(
    tenant: Tenant, source: str, outside: Storage, folder: str, status: int
) -> None:
    answer = create_batch(tenant, folder.format(outside.bucket))

    assert (answer.status_code, answer.json()["error"]["param"]) == (status, "output_prefix")
