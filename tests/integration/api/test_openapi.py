"""Every call of our OpenAPI document, with what it allows and what it forbids: never a 5xx."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from api.services import Services
from tests.integration.api.conftest import Tenant
from tests.integration.api.test_batches import create
from tests.integration.api.test_files import upload
from tests.integration.api.test_uploads_in_parts import begin
from tests.integration.api.working import answer, claim_one

# Of an endpoint that is there it would wait for a control process to send a sample.
NEEDS_A_WORKER = "/test"

EXAMPLES = 12  # of each call and mode: half a minute in all


@pytest.fixture
def session(tenant: Tenant) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {tenant.key}"
        yield session


@pytest.fixture
def names(tenant: Tenant, services: Services) -> dict[str, str]:
    """Ids of objects that are there, by the names that the document's paths have for them."""
    file_id = upload(tenant)
    body = {"messages": [{"role": "user", "content": "hi"}]}
    job = {"model": tenant.model, "endpoint": "/v1/chat/completions", "body": body}
    job_id = tenant.http.post("/v1/jobs", json=job).json()["id"]
    answer(services, claim_one(services, tenant.model), "hello")  # or `wait` would wait for it
    endpoint = tenant.openai.webhooks.create(
        name="a", url="https://example.com/", event_types=["batch.completed"]
    )
    return {
        "webhook_endpoint_id": endpoint.id,
        "file_id": file_id,
        "upload_id": begin(tenant).id,
        "batch_id": create(tenant, file_id)["id"],
        "job_id": job_id,
    }


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=str)
def test_nothing_that_is_sent_makes_the_server_fail(
    base_url: str, session: requests.Session, names: dict[str, str], mode: GenerationMode
) -> None:
    document = schemathesis.openapi.from_url(f"{base_url}/openapi.json")
    faults: list[str] = []

    for found in document.get_all_operations():
        assert isinstance(found, Ok)
        call_with_anything(found.ok(), session, names, mode, faults)

    assert faults == []


def call_with_anything(
    operation: Any,
    session: requests.Session,
    names: dict[str, str],
    mode: GenerationMode,
    faults: list[str],
) -> None:
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    def call(case: Any, real: bool) -> None:
        if real and case.path_parameters and not operation.path.endswith(NEEDS_A_WORKER):
            case.path_parameters |= {
                name: names[name] for name in case.path_parameters if name in names
            }
        response = case.call(session=session, timeout=20)
        if response.status_code >= 500:
            faults.append(f"{response.status_code} {case.as_curl_command()} {response.text[:200]}")

    with suppress(Unsatisfiable):  # nothing that a call without parameters is sent can be wrong
        call()
