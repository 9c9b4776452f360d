"""`/v1/batches` as the official client uses it; no worker reads the files here."""

from typing import Any, Final

import openai
import pytest
from redis import Redis
from sqlalchemy import text

from api.services import Services
from jobs.doorbell import CONTROL, KEY_PREFIX
from tests.fixtures.broker import Broker
from tests.integration.api.conftest import Tenant

CHAT: Final = "/v1/chat/completions"


@pytest.fixture
def file_id(tenant: Tenant) -> str:
    return tenant.openai.files.create(file=("in.jsonl", b"{}\n"), purpose="batch").id


def batch_body(file_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "input_file_id": file_id,
        "endpoint": CHAT,
        "completion_window": "24h",
        **changes,
    }


UNSET_AT_FIRST = (
    "model",
    "errors",
    "output_file_id",
    "error_file_id",
    "in_progress_at",
    "finalizing_at",
    "completed_at",
    "failed_at",
    "expired_at",
    "cancelling_at",
    "cancelled_at",
)


def create(tenant: Tenant, file_id: str, **changes: Any) -> dict[str, Any]:
    answer = tenant.http.post("/v1/batches", json=batch_body(file_id, **changes))
    assert answer.status_code == 200, answer.text
    created: dict[str, Any] = answer.json()
    return created


def test_a_new_batch_is_validating_with_every_field_of_the_contract(
    tenant: Tenant, file_id: str
) -> None:
    batch = tenant.openai.batches.create(
        input_file_id=file_id,
        endpoint=CHAT,
        completion_window="24h",
        metadata={"for": "test"},
        output_expires_after={"anchor": "created_at", "seconds": 3600},
    )

    assert batch.id.startswith("batch_")
    assert batch.object == "batch"
    assert batch.status == "validating"
    assert (batch.endpoint, batch.input_file_id) == (CHAT, file_id)
    assert batch.completion_window == "24h"
    assert batch.expires_at == batch.created_at + 24 * 3600
    assert batch.metadata == {"for": "test"}
    assert batch.request_counts is not None
    assert batch.request_counts.to_dict() == {"total": 0, "completed": 0, "failed": 0}
    assert batch.usage is not None
    assert batch.usage.to_dict() == {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }
    assert [getattr(batch, name) for name in UNSET_AT_FIRST] == [None] * len(UNSET_AT_FIRST)
    assert tenant.openai.batches.retrieve(batch.id) == batch


def test_our_own_fields_stand_beside_openais(tenant: Tenant, file_id: str) -> None:
    batch = create(
        tenant,
        file_id,
        completion_window="7d",
        priority="interactive",
        on_invalid_line="skip",
        webhook_url="https://example.com/hook",
    )

    assert batch["expires_at"] == batch["created_at"] + 7 * 24 * 3600
    assert batch["priority"] == "interactive"
    assert batch["on_invalid_line"] == "skip"
    assert batch["webhook_url"] == "https://example.com/hook"
    assert batch["progress"] == 0
    assert batch["prefix"] == {"hit_rate": 0, "tokens_saved": 0}


def test_a_batch_in_line_to_be_read_says_so(tenant: Tenant, file_id: str) -> None:
    batch = create(tenant, file_id)

    queue = batch["queue"]

    assert queue["position"] >= 1
    assert queue["reason"] == "waits for its file to be read"


def test_a_running_batch_sums_its_segments(
    tenant: Tenant, file_id: str, services: Services
) -> None:
    batch = create(tenant, file_id)
    values = {"id": batch["id"].removeprefix("batch_"), "model": tenant.model}
    with services.sessions.begin() as session:
        session.execute(text(RUNNING), values)
        for _ in range(2):
            session.execute(text(SEGMENT), values)

    found = tenant.http.get(f"/v1/batches/{batch['id']}").json()

    assert found["status"] == "in_progress"
    assert found["model"] == tenant.model
    assert found["request_counts"] == {"total": 8, "completed": 4, "failed": 2}
    assert found["progress"] == 0.75
    assert found["usage"]["input_tokens"] == 80
    assert found["usage"]["total_tokens"] == 100
    assert found["prefix"] == {"hit_rate": 0.75, "tokens_saved": 60}


RUNNING = """
    UPDATE jobs SET state = 'in_progress', model = :model, total = 8, in_progress_at = now()
     WHERE id = :id
"""
SEGMENT = """
    INSERT INTO segments (job_id, attempt, storage_key, bytes, sha256, ok, failed, last_index,
                          input_tokens, cached_tokens, output_tokens)
    VALUES (:id, 1, 'key', 1, '', 2, 1, 0, 40, 30, 10)
"""


def test_a_new_batch_rings_the_control_program(
    tenant: Tenant, file_id: str, api_broker: Broker
) -> None:
    with Redis.from_url(api_broker.url) as broker:
        broker.delete(KEY_PREFIX + CONTROL)

        create(tenant, file_id)

        assert broker.blpop([KEY_PREFIX + CONTROL], timeout=10) is not None


def test_batches_are_listed_newest_first_and_page_by_page(tenant: Tenant, file_id: str) -> None:
    ids = [create(tenant, file_id)["id"] for _ in range(5)]

    listed = [batch.id for batch in tenant.openai.batches.list(limit=2)]

    assert listed == ids[::-1]


def test_a_job_is_no_batch_and_a_batch_no_job(tenant: Tenant, file_id: str) -> None:
    batch_hex = create(tenant, file_id)["id"].removeprefix("batch_")

    as_job = tenant.http.get(f"/v1/jobs/job_{batch_hex}")

    assert as_job.status_code == 404
    assert tenant.http.get("/v1/jobs").json()["data"] == []


def test_a_cancelled_batch_is_cancelling_and_a_second_cancel_changes_nothing(
    tenant: Tenant, file_id: str
) -> None:
    batch_id = create(tenant, file_id)["id"]

    first = tenant.openai.batches.cancel(batch_id)
    second = tenant.openai.batches.cancel(batch_id)

    assert first.status == "cancelling"
    assert first.cancelling_at is not None
    assert second == first


def test_a_finished_batch_cannot_be_cancelled(
    tenant: Tenant, file_id: str, services: Services
) -> None:
    batch_id = create(tenant, file_id)["id"]
    with services.sessions.begin() as session:
        session.execute(
            text("UPDATE jobs SET state = 'completed', finished_at = now() WHERE id = :id"),
            {"id": batch_id.removeprefix("batch_")},
        )

    with pytest.raises(openai.ConflictError):
        tenant.openai.batches.cancel(batch_id)

    assert tenant.openai.batches.retrieve(batch_id).completed_at is not None


REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "an unknown file": (
        {"input_file_id": "file-" + "0" * 32},
        404,
        "not_found",
        "input_file_id",
    ),
    "no file's id": ({"input_file_id": "a"}, 404, "not_found", "input_file_id"),
    "an unknown endpoint": ({"endpoint": "/v1/sing"}, 400, "invalid_value", "endpoint"),
    "a window that is none": (
        {"completion_window": "soon"},
        400,
        "invalid_value",
        "completion_window",
    ),
    "no window at all": ({"completion_window": "0h"}, 400, "invalid_value", "completion_window"),
    "a window of Arabic digits": (
        {"completion_window": "٢٤h"},
        400,
        "invalid_value",
        "completion_window",
    ),
    "too much metadata": (
        {"metadata": {str(n): "" for n in range(17)}},
        400,
        "invalid_value",
        "metadata",
    ),
    "a key that is too long": ({"metadata": {"k" * 65: ""}}, 400, "invalid_value", "metadata"),
    "a value that is too long": ({"metadata": {"k": "v" * 513}}, 400, "invalid_value", "metadata"),
    "an anchor that is none": (
        {"output_expires_after": {"anchor": "now", "seconds": 3600}},
        400,
        "invalid_value",
        "output_expires_after.anchor",
    ),
    "a misspelt parameter": ({"web_hook": ""}, 400, "unknown_parameter", "web_hook"),
    "a webhook with a password": (
        {"webhook_url": "https://me:pw@example.com/"},
        400,
        "invalid_value",
        "webhook_url",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_body_that_is_wrong_is_refused(tenant: Tenant, file_id: str, case: str) -> None:
    changes, status, code, param = REFUSED[case]

    answer = tenant.http.post("/v1/batches", json=batch_body(file_id, **changes))

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
    assert tenant.http.get("/v1/batches").json()["data"] == []


@pytest.mark.parametrize("name", ["input_file_id", "endpoint", "completion_window"])
def test_a_missing_parameter_is_named(tenant: Tenant, file_id: str, name: str) -> None:
    body = batch_body(file_id)
    del body[name]

    answer = tenant.http.post("/v1/batches", json=body)

    error = answer.json()["error"]
    assert answer.status_code == 400
    assert (error["code"], error["param"]) == ("missing_required_parameter", name)


def test_a_file_of_another_purpose_is_refused(tenant: Tenant) -> None:
    file = tenant.openai.files.create(file=("a", b"{}\n"), purpose="user_data")

    with pytest.raises(openai.BadRequestError, match="user_data") as refusal:
        tenant.openai.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")

    assert refusal.value.param == "input_file_id"


def test_a_deleted_file_is_refused(tenant: Tenant, file_id: str) -> None:
    tenant.openai.files.delete(file_id)

    with pytest.raises(openai.NotFoundError):
        tenant.openai.batches.create(input_file_id=file_id, endpoint=CHAT, completion_window="24h")
