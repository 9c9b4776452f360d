"""Puts a batch where a test wants it; no control program runs beside these tests."""

import hashlib
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from api.services import Services
from jobs import lines, results
from jobs.lines import Answer, Choice
from jobs.results import Row, SegmentDraft
from tests.integration.api.conftest import Tenant

CHAT: Final = "/v1/chat/completions"


def create(tenant: Tenant, **changes: Any) -> dict[str, Any]:
    file = tenant.openai.files.create(file=("in.jsonl", b"{}\n{}\n"), purpose="batch")
    body = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h", **changes}
    answer = tenant.http.post("/v1/batches", json=body)
    assert answer.status_code == 200, answer.text
    created: dict[str, Any] = answer.json()
    return created


def uuid_of(batch: dict[str, Any]) -> UUID:
    return UUID(batch["id"].removeprefix("batch_"))


def run(services: Services, tenant: Tenant, batch: dict[str, Any], total: int = 2) -> None:
    """The batch is in progress, with no shard that a worker of another test could take."""
    _update(
        services,
        "state = 'in_progress', in_progress_at = now(), model = :model, total = :total",
        uuid_of(batch),
        model=tenant.model,
        total=total,
    )


def finish_rows(services: Services, batch: dict[str, Any], *indexes: int, ok: bool = True) -> None:
    job_id = uuid_of(batch)
    answer = Answer(
        (Choice("yes", "stop"),), prompt_tokens=3, cached_tokens=2, output_tokens=1, created=1
    )
    data, rows = b"", list[Row]()
    for index in indexes:
        body = lines.response_body(job_id, index, endpoint=CHAT, model="m", answer=answer)
        line = lines.answered(job_id, index, custom_id=f"r{index}", body=body)
        rows.append(Row(index, ok, len(data), len(line)))
        data += line
    key = f"test/{job_id.hex}-{indexes[0]}"
    services.storage.put(key, data)
    segment = SegmentDraft(key, len(data), hashlib.sha256(data).hexdigest(), rows)
    with services.sessions.begin() as session:
        results.put(session, job_id, segment, shard_id=1, attempt=1)


def end(services: Services, batch: dict[str, Any], *, completed: int, failed: int) -> None:
    _update(
        services,
        "state = 'completed', finished_at = now(), completed = :completed, failed = :failed",
        uuid_of(batch),
        completed=completed,
        failed=failed,
    )


def _update(services: Services, changes: str, job_id: UUID, **values: object) -> None:
    with services.sessions.begin() as session:
        session.execute(text(f"UPDATE jobs SET {changes} WHERE id = :id"), values | {"id": job_id})
