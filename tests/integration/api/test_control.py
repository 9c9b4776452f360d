"""Beyond OpenAI's calls: results while it runs, the receipt, changes, retry, deletion."""

import hashlib
import time
from typing import Any

import openai
import pytest

from api.services import Services
from tests.fixtures.work import wait_until_nothing_hides_results
from tests.integration.api.batch_scenes import create, end, finish_rows, run, uuid_of
from tests.integration.api.conftest import Tenant


def patch(tenant: Tenant, batch: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answer = tenant.http.patch(f"/v1/batches/{batch['id']}", json=changes)
    assert answer.status_code == 200, answer.text
    changed: dict[str, Any] = answer.json()
    return changed


def results(tenant: Tenant, batch: dict[str, Any], **query: Any) -> dict[str, Any]:
    answer = tenant.http.get(f"/v1/batches/{batch['id']}/results", params=query)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def ids_of(page: dict[str, Any]) -> list[str]:
    return [line["custom_id"] for line in page["data"]]


def test_results_are_read_page_by_page_until_done(tenant: Tenant, services: Services) -> None:
    batch = create(tenant)
    run(services, tenant, batch, total=3)
    finish_rows(services, batch, 2, 0)

    wait_until_nothing_hides_results(services.sessions)
    first = results(tenant, batch, limit=1)
    second = results(tenant, batch, after=first["next_cursor"])
    finish_rows(services, batch, 1)
    wait_until_nothing_hides_results(services.sessions)
    third = results(tenant, batch, after=second["next_cursor"])
    end(services, batch, completed=3, failed=0)
    last = results(tenant, batch, after=third["next_cursor"])

    assert (ids_of(first), first["has_more"], first["done"]) == (["r2"], True, False)
    assert (ids_of(second), second["has_more"], second["done"]) == (["r0"], False, False)
    assert (ids_of(third), third["object"]) == (["r1"], "list")
    assert (ids_of(last), last["done"]) == ([], True)
    assert first["data"][0]["response"]["body"]["choices"][0]["message"]["content"] == "yes"


def test_results_that_the_store_lost_are_said_to_be_lost(
    tenant: Tenant, services: Services
) -> None:
    batch = create(tenant)
    run(services, tenant, batch, total=1)
    finish_rows(services, batch, 0)
    end(services, batch, completed=1, failed=0)
    services.storage.delete([f"test/{uuid_of(batch).hex}-0"])

    answer = tenant.http.get(f"/v1/batches/{batch['id']}/results")

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "result_lost"


@pytest.mark.parametrize(
    ("query", "param"),
    [({"after": "me"}, "after"), ({"limit": 0}, "limit"), ({"limit": 1001}, "limit")],
)
def test_a_page_that_cannot_be_is_refused(
    tenant: Tenant, query: dict[str, Any], param: str
) -> None:
    batch = create(tenant)

    answer = tenant.http.get(f"/v1/batches/{batch['id']}/results", params=query)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_a_receipt_names_what_went_in_and_how_it_ended(tenant: Tenant, services: Services) -> None:
    batch = create(tenant)
    run(services, tenant, batch)
    end(services, batch, completed=0, failed=0)

    receipt = tenant.http.get(f"/v1/batches/{batch['id']}/receipt").json()

    assert receipt["object"] == "batch.receipt"
    assert receipt["input"] == {
        "file_id": batch["input_file_id"],
        "bytes": 6,
        "sha256": hashlib.sha256(b"{}\n{}\n").hexdigest(),
        "lines": 2,
    }
    assert (receipt["output"], receipt["error"]) == (None, None)
    assert receipt["request_counts"] == {"total": 2, "completed": 0, "failed": 0}
    assert receipt["never_ran"] == 2


def test_there_is_no_receipt_before_the_end(tenant: Tenant) -> None:
    answer = tenant.http.get(f"/v1/batches/{create(tenant)['id']}/receipt")

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_allowed_now")


def test_a_change_is_seen_in_the_batch(tenant: Tenant) -> None:
    batch = create(tenant, metadata={"a": "b"})
    deadline = int(time.time()) + 5000

    changed = patch(tenant, batch, priority="interactive", paused=True, deadline=deadline)
    described = patch(tenant, batch, metadata={"c": "d"})
    cleared = patch(tenant, batch, metadata=None, completion_window="48h")

    assert (changed["priority"], changed["paused"]) == ("interactive", True)
    assert changed["expires_at"] == deadline
    assert changed["queue"]["reason"] == "paused"
    assert changed["metadata"] == {"a": "b"}
    assert described["metadata"] == {"c": "d"}
    assert cleared["metadata"] is None
    assert cleared["expires_at"] == batch["created_at"] + 48 * 3600
    assert tenant.openai.batches.retrieve(batch["id"]).completion_window == "48h"


WRONG: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "two deadlines": ({"deadline": 2**33, "completion_window": "1h"}, "invalid_value", None),
    "a deadline that has passed": ({"deadline": 1}, "invalid_value", "deadline"),
    "a deadline beyond all calendars": ({"deadline": 10**15}, "invalid_value", "deadline"),
    "a window that is none": ({"completion_window": "x"}, "invalid_value", "completion_window"),
    "a priority that is none": ({"priority": "high"}, "invalid_value", "priority"),
    "too much metadata": (
        {"metadata": {str(n): "" for n in range(17)}},
        "invalid_value",
        "metadata",
    ),
    "what cannot be changed": ({"endpoint": "/v1/completions"}, "unknown_parameter", "endpoint"),
}


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_a_change_that_is_wrong_is_refused(tenant: Tenant, case: str) -> None:
    changes, code, param = WRONG[case]
    batch = create(tenant)

    answer = tenant.http.patch(f"/v1/batches/{batch['id']}", json=changes)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param)


def test_a_fault_of_the_body_as_a_whole_is_said_alone(tenant: Tenant) -> None:
    batch = create(tenant)
    changes, _, _ = WRONG["two deadlines"]

    answer = tenant.http.patch(f"/v1/batches/{batch['id']}", json=changes)

    message = answer.json()["error"]["message"]
    assert message == "Give 'deadline' or 'completion_window', not both."


def test_an_ended_batch_takes_only_metadata(tenant: Tenant, services: Services) -> None:
    batch = create(tenant)
    end(services, batch, completed=0, failed=0)

    answer = tenant.http.patch(f"/v1/batches/{batch['id']}", json={"paused": True})

    assert answer.status_code == 409
    assert patch(tenant, batch, metadata={"a": "b"})["metadata"] == {"a": "b"}


def test_a_retry_is_a_batch_of_its_own_like_its_parent(tenant: Tenant, services: Services) -> None:
    parent = create(tenant, metadata={"a": "b"}, priority="interactive", on_invalid_line="skip")
    run(services, tenant, parent)
    finish_rows(services, parent, 0)
    finish_rows(services, parent, 1, ok=False)
    end(services, parent, completed=1, failed=1)

    url = f"/v1/batches/{parent['id']}/retry"
    answer = tenant.http.post(url, headers={"Idempotency-Key": "k"})
    again = tenant.http.post(url, headers={"Idempotency-Key": "k"})
    other = tenant.http.post(url, json={"completion_window": "7d", "metadata": None})

    child = answer.json()
    assert answer.status_code == 200, answer.text
    assert child["retry_of"] == parent["id"]
    for same in ("input_file_id", "endpoint", "completion_window", "metadata", "on_invalid_line"):
        assert child[same] == parent[same]
    assert (child["status"], child["priority"]) == ("validating", "interactive")
    assert again.json() == child
    assert other.json()["completion_window"] == "7d"
    assert other.json()["metadata"] is None


def test_a_batch_without_failed_rows_is_not_retried(tenant: Tenant, services: Services) -> None:
    batch = create(tenant)
    run(services, tenant, batch, total=1)
    finish_rows(services, batch, 0)
    end(services, batch, completed=1, failed=0)

    answer = tenant.http.post(f"/v1/batches/{batch['id']}/retry")

    assert answer.status_code == 409


def test_an_earlier_batch_is_named_and_must_be_there(tenant: Tenant, other: Tenant) -> None:
    first = create(tenant)

    second = create(tenant, reuse_from=first["id"])
    body = {
        "input_file_id": first["input_file_id"],
        "endpoint": first["endpoint"],
        "completion_window": "24h",
        "reuse_from": create(other)["id"],
    }
    strangers = tenant.http.post("/v1/batches", json=body)

    assert second["reuse_from"] == first["id"]
    assert strangers.status_code == 404
    assert strangers.json()["error"]["param"] == "reuse_from"


def test_an_ended_batch_is_deleted_and_no_running_one(tenant: Tenant, services: Services) -> None:
    running, ended = create(tenant), create(tenant)
    end(services, ended, completed=0, failed=0)

    refused = tenant.http.delete(f"/v1/batches/{running['id']}")
    deleted = tenant.http.delete(f"/v1/batches/{ended['id']}")

    assert refused.status_code == 409
    assert deleted.json() == {"id": ended["id"], "object": "batch", "deleted": True}
    assert [batch.id for batch in tenant.openai.batches.list().data] == [running["id"]]
    with pytest.raises(openai.NotFoundError):
        tenant.openai.batches.retrieve(ended["id"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", ""),
        ("DELETE", ""),
        ("POST", "/retry"),
        ("GET", "/results"),
        ("GET", "/receipt"),
    ],
)
def test_a_strangers_batch_is_not_there(
    tenant: Tenant, other: Tenant, method: str, path: str
) -> None:
    batch = create(other)

    answer = tenant.http.request(
        method, f"/v1/batches/{batch['id']}{path}", json={} if method == "PATCH" else None
    )

    assert answer.status_code == 404
