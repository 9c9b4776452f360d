"""Models, health and metrics; and what the API does while a server behind it is away."""

import re
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from api.services import Services, connected
from cli.ports import free_pairs
from jobs.settings import StorageSettings
from tests.fixtures.broker import Broker
from tests.integration.api.conftest import Tenant, api_settings, new_tenant, serving

CHAT: Final = "/v1/chat/completions"


def test_models_are_listed_as_the_official_client_reads_them(tenant: Tenant) -> None:
    listed = [model.id for model in tenant.openai.models.list()]

    model = tenant.openai.models.retrieve(tenant.model)
    assert tenant.model in listed
    assert (model.object, model.owned_by) == ("model", "gristmill")


def test_a_running_server_is_alive_and_ready_for_anyone(base_url: str) -> None:
    assert httpx.get(f"{base_url}/healthz").json() == {"status": "ok"}
    assert httpx.get(f"{base_url}/readyz").json() == {"status": "ready"}


def test_metrics_count_requests_by_route_and_never_by_path(tenant: Tenant, base_url: str) -> None:
    job_id = "job_" + "0" * 32
    tenant.http.get(f"/v1/jobs/{job_id}")

    said = httpx.get(f"{base_url}/metrics").text

    counted = 'gristmill_http_requests_total{method="GET",route="/v1/jobs/{job_id}",status="404"}'
    assert counted in said
    assert job_id not in said
    assert "gristmill_http_request_seconds_bucket" in said
    assert "gristmill_queue_depth" in said


def test_metrics_have_one_label_for_whatever_does_not_exist(base_url: str) -> None:
    httpx.get(f"{base_url}/v1/no/such/thing")
    httpx.request("BREW", f"{base_url}/v1/jobs")

    said = httpx.get(f"{base_url}/metrics").text

    assert re.search(r'requests_total{method="GET",route="none",status="404"}', said)
    assert "BREW" not in said


def test_the_document_of_the_api_describes_every_body(base_url: str) -> None:
    paths = httpx.get(f"{base_url}/openapi.json").json()["paths"]

    form, json = "multipart/form-data", "application/json"
    taken = {
        "/v1/jobs": {json},
        "/v1/batches": {json},
        "/v1/files": {form, json},
        "/v1/uploads": {json},
        "/v1/uploads/{upload_id}/parts": {form, json},
    }
    found = {path: set(paths[path]["post"]["requestBody"]["content"]) for path in taken}
    assert found == taken


def test_the_dashboard_stands_beside_the_api(base_url: str) -> None:
    answer = httpx.get(f"{base_url}/dashboard/")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/dashboard/login"


@pytest.fixture
def lonely(
    database_url: str, broker: Broker, storage_settings: StorageSettings
) -> Iterator[tuple[Services, Tenant]]:
    """A server whose broker and bucket the test may take away, and its tenant."""
    settings = api_settings(database=database_url, broker=broker.url, storage=storage_settings)
    with (
        connected(settings, stopping=lambda: False) as services,
        serving(services) as url,
        new_tenant(services, url) as tenant,
    ):
        yield services, tenant


def test_a_job_is_accepted_while_the_broker_is_gone(
    lonely: tuple[Services, Tenant], broker: Broker
) -> None:
    _, tenant = lonely
    broker.kill()
    body = {"messages": [{"role": "user", "content": "hi"}]}
    job = {"model": tenant.model, "endpoint": CHAT, "body": body}

    answer = tenant.http.post("/v1/jobs", json=job, headers={"Prefer": "wait=1"})

    assert answer.status_code == 202
    assert answer.json()["status"] == "queued"


def test_an_upload_while_s3_is_away_is_a_503_and_leaves_no_file(
    database_url: str, broker: Broker, storage_settings: StorageSettings
) -> None:
    away = storage_settings.model_copy(update={"endpoint": f"http://127.0.0.1:{free_pairs(1)[0]}"})
    settings = api_settings(database=database_url, broker=broker.url, storage=away)
    with (
        connected(settings, stopping=lambda: False) as services,
        serving(services) as url,
        new_tenant(services, url) as tenant,
    ):
        parts: Any = [("purpose", (None, "batch")), ("file", ("in.jsonl", b"{}\n"))]

        answer = tenant.http.post("/v1/files", files=parts)

        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "service_unavailable"
        assert answer.headers["retry-after"] == "2"
        assert tenant.http.get("/v1/files").json()["data"] == []


def test_without_postgres_the_server_is_alive_but_not_ready(
    broker: Broker, storage_settings: StorageSettings
) -> None:
    nowhere = f"postgresql+psycopg://user:hush@127.0.0.1:{free_pairs(1)[0]}/name"
    settings = api_settings(database=nowhere, broker=broker.url, storage=storage_settings)
    with connected(settings, stopping=lambda: False) as services, serving(services) as url:
        ready = httpx.get(f"{url}/readyz")
        alive = httpx.get(f"{url}/healthz")
        metrics = httpx.get(f"{url}/metrics")

    assert ready.status_code == 503
    assert "hush" not in ready.text
    assert alive.status_code == 200
    assert "gristmill_database_up 0.0" in metrics.text
