"""The list of docs/architecture.md, walked once for a batch and once for a single request."""

import re
from typing import Any

import pytest
from openai.types.webhooks import BatchCompletedWebhookEvent
from sqlalchemy import create_engine, text

from cli.webhook_receiver import receiving
from jobs.settings import StorageSettings
from jobs.storage import Storage
from tests.e2e.client import Client, counts, extra
from tests.fixtures.stack import UpStack


def test_a_batch_goes_from_post_to_webhook(client: Client, stack: UpStack) -> None:
    system = {"role": "system", "content": "the quick brown fox jumps over the lazy dog " * 2}
    rows = [
        client.row(f"r{n}", messages=[system, {"role": "user", "content": f"dog {n}"}])
        for n in range(40)
    ]
    rows[7]["body"]["temperature"] = 999

    with receiving() as receiver:
        batch = client.submit(rows, webhook_url=receiver.url, metadata={"team": "night"})
        assert batch.status == "validating"
        ended = client.wait(batch)
        posted = receiver.next(timeout=30)

    # 15, 16: finalized in input order, the refused row in a file of its own, the counts agree.
    assert ended.status == "completed"
    assert counts(ended) == (40, 39, 1)
    assert client.ids(ended.output_file_id) == [f"r{n}" for n in range(40) if n != 7]
    (refused,) = client.read(ended.error_file_id)
    assert (refused["custom_id"], refused["response"]["status_code"]) == ("r7", 400)
    assert refused["response"]["body"]["error"]["param"] == "temperature"
    # 11: the shared prefix was computed once.
    usage, prefix = ended.usage, extra(ended, "prefix")
    assert usage is not None
    assert usage.input_tokens_details.cached_tokens == prefix["tokens_saved"] > 0
    # 17: the webhook is signed, and says which batch it was.
    event = client.openai.webhooks.unwrap(
        posted.body, posted.headers, secret=stack.facts.webhook_secret
    )
    assert isinstance(event, BatchCompletedWebhookEvent)
    assert event.data.id == batch.id
    assert posted.headers["webhook-id"] == event.id


def test_every_step_left_its_mark_in_postgres_and_s3(client: Client, stack: UpStack) -> None:
    ended = client.wait(client.submit([client.row("a"), client.row("b")]))

    engine = create_engine(stack.facts.database_url)
    with engine.connect() as connection:
        values = {"id": ended.id.removeprefix("batch_")}

        def column(query: str) -> list[object]:
            return list(connection.scalars(text(query), values))

        assert column("SELECT custom_id FROM requests WHERE job_id = :id ORDER BY index") == [
            "a",
            "b",
        ]
        assert set(column("SELECT state FROM shards WHERE job_id = :id")) == {"done"}
        assert column("SELECT ok FROM results WHERE job_id = :id") == [True, True]
        assert column("SELECT type FROM events WHERE job_id = :id") == ["batch.completed"]
        keys = column("SELECT storage_key FROM segments WHERE job_id = :id")
    engine.dispose()
    storage = Storage(StorageSettings.model_validate(stack.facts.storage))
    assert all(storage.read(str(key)) for key in keys)
    output = client.openai.files.retrieve(str(ended.output_file_id))
    assert output.purpose == "batch_output"
    assert extra(output, "lines") == 2


def test_a_single_request_is_answered_and_its_webhook_verified(
    client: Client, stack: UpStack
) -> None:
    new = {
        "model": client.model,
        "endpoint": "/v1/chat/completions",
        "body": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 5},
    }

    with receiving() as receiver:
        created = client.http.post("/v1/jobs", json=new | {"webhook_url": receiver.url})
        job = client.http.get(f"/v1/jobs/{created.json()['id']}?wait=30").json()
        posted = receiver.next(timeout=30)

    assert created.status_code == 202
    assert job["status"] == "completed"
    assert job["response"]["status_code"] == 200
    assert job["response"]["body"]["usage"]["completion_tokens"] <= 5
    client.openai.webhooks.unwrap(posted.body, posted.headers, secret=stack.facts.webhook_secret)


def test_a_job_whose_prompt_is_too_long_fails_with_a_400(client: Client) -> None:
    new = {
        "model": client.model,
        "endpoint": "/v1/chat/completions",
        "body": {"messages": [{"role": "user", "content": "dog " * 500}], "max_tokens": 5},
    }

    created = client.http.post("/v1/jobs", json=new).json()
    job = client.http.get(f"/v1/jobs/{created['id']}?wait=30").json()

    assert (job["status"], job["response"]["status_code"]) == ("failed", 400)
    assert job["response"]["body"]["error"]["code"] == "context_length_exceeded"


def test_a_greedy_answer_does_not_depend_on_its_company(client: Client) -> None:
    rows = [client.row(f"r{n}", f"fox {n} dog", temperature=0, max_tokens=12) for n in range(20)]

    together = client.wait(client.submit(rows))
    alone = client.wait(client.submit(rows[3:4]))

    def said(line: dict[str, Any]) -> object:
        return line["response"]["body"]["choices"][0]["message"]["content"]

    assert said(client.read(together.output_file_id)[3]) == said(
        client.read(alone.output_file_id)[0]
    )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_seed_gives_the_same_answer_twice(client: Client, temperature: float) -> None:
    rows = [client.row("a", temperature=temperature, seed=7, max_tokens=12)]

    first, second = (client.wait(client.submit(rows)) for _ in range(2))

    texts = [
        client.read(batch.output_file_id)[0]["response"]["body"]["choices"]
        for batch in (first, second)
    ]
    assert texts[0] == texts[1]


@pytest.mark.law("P18")
def test_a_cancelled_batch_delivers_what_finished_and_names_the_rest(client: Client) -> None:
    rows = [client.row(f"r{n}", max_tokens=200, ignore_eos=True) for n in range(300)]
    batch = client.submit(rows)
    client.wait_for(batch, lambda seen: counts(seen)[1] > 0)

    client.openai.batches.cancel(batch.id)
    ended = client.wait(batch)

    assert ended.status == "cancelled"
    finished, never_ran = client.ids(ended.output_file_id), client.read(ended.error_file_id)
    assert {line["error"]["code"] for line in never_ran} == {"batch_cancelled"}
    assert sorted(finished + [line["custom_id"] for line in never_ran]) == sorted(
        row["custom_id"] for row in rows
    )
    assert counts(ended) == (300, len(finished), 0)


@pytest.mark.law("P18")
def test_a_batch_whose_window_ends_is_expired_with_what_finished(
    client: Client, stack: UpStack
) -> None:
    rows = [client.row(f"r{n}", max_tokens=200, ignore_eos=True) for n in range(300)]
    batch = client.submit(rows)
    client.wait_for(batch, lambda seen: counts(seen)[1] > 0)

    engine = create_engine(stack.facts.database_url)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE jobs SET expires_at = now() WHERE id = :id"),
            {"id": batch.id.removeprefix("batch_")},
        )
    engine.dispose()
    ended = client.wait(batch)

    assert ended.status == "expired"
    never_ran = client.read(ended.error_file_id)
    assert {line["error"]["code"] for line in never_ran} == {"batch_expired"}
    assert len(never_ran) + len(client.ids(ended.output_file_id)) == 300


def test_prometheus_reads_the_queue_at_the_api_and_the_engine_at_its_worker(
    client: Client, stack: UpStack
) -> None:
    client.wait(client.submit([client.row("a")]))

    api, worker = (client.http.get(url).text for url in stack.facts.metrics_urls)

    assert "gristmill_queue_depth{" in api
    assert "gristmill_workers_alive{" in api
    assert 'gristmill_bells_rung_total{queue="control"}' in api
    assert "gristmill_claims_empty_total " in worker
    assert "gristmill_engine_progress_age_seconds{" in worker
    steps = re.search(r"^gristmill_engine_steps_total\{.*\} (\S+)$", worker, re.MULTILINE)
    assert steps is not None
    assert float(steps[1]) > 0
