"""Every call of our OpenAPI document, with what it allows and what it forbids.

Never a 5xx, and whatever is answered is as the document says.
"""

import json
import re
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
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.services import Services
from tests.integration.api.conftest import Tenant
from tests.integration.api.test_batches import create
from tests.integration.api.test_files import upload
from tests.integration.api.test_uploads_in_parts import begin
from tests.integration.api.working import answer, claim_one

# Of an endpoint that is there it would wait for a control process to send a sample.
OPEN = {"/healthz", "/readyz", "/metrics"}  # without a key
NEEDS_A_WORKER = "/test"

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
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


def test_the_document_names_the_key_and_every_schema_that_it_refers_to(base_url: str) -> None:
    document = requests.get(f"{base_url}/openapi.json", timeout=30).json()

    calls = {
        (path, method): call
        for path, calls in document["paths"].items()
        for method, call in calls.items()
    }
    references = set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)))

    assert references <= {
        f"#/components/schemas/{name}" for name in document["components"]["schemas"]
    }
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    assert {path for (path, _), call in calls.items() if "security" not in call} == OPEN
    assert {call for call, said in calls.items() if "422" in said["responses"]} == set()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=str)
def test_whatever_is_sent_is_answered_as_the_document_says(
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
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as found:
            faults.append(str(found))

    with suppress(Unsatisfiable):  # nothing that a call without parameters is sent can be wrong
        call()
