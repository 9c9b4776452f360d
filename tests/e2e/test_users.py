"""What users of one running stack meet: the whole of the official client, each other, no leak."""

import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import openai
import pytest
from redis import Redis
from redis.client import Monitor

from cli.webhook_receiver import receiving
from jobs import keys
from jobs.database import connect, sessions_of
from jobs.secrets import Secrets
from tests.e2e.client import CHAT_COMPLETIONS, Client, counts
from tests.fixtures.stack import UpStack

DEADLINE = 30.0


@pytest.fixture
def stranger(stack: UpStack) -> Iterator[Client]:
    """A client of another tenant."""
    engine = connect(stack.facts.database_url)
    with sessions_of(engine).begin() as session:
        tenant_id = keys.create_tenant(session, _own_secrets(), name=uuid4().hex)
        key = keys.create_key(session, tenant_id=tenant_id, name="test")
    engine.dispose()
    with Client(replace(stack.facts, api_key=key)) as client:
        yield client


def _own_secrets() -> Secrets:
    """This tenant has no webhook, so that nobody asks which key its secret was encrypted with."""
    return Secrets(Secrets.generate_key())


def test_the_official_client_does_all_that_it_can_with_files(client: Client) -> None:
    files = client.openai.files
    content = b'{"a": 1}\n{"b": 2}\n'

    made = files.create(
        file=("two.jsonl", io.BytesIO(content)),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    other = files.create(file=Path(__file__), purpose="user_data")

    assert (made.object, made.bytes, made.filename) == ("file", len(content), "two.jsonl")
    assert made.expires_at == made.created_at + 3600
    assert files.retrieve(made.id) == made
    assert files.wait_for_processing(made.id).status == "processed"
    listed = files.list(purpose="batch", limit=1, order="desc")
    assert [file.id for file in listed.data] == [made.id]
    assert {made.id, other.id} <= {file.id for file in files.list(limit=1)}  # page by page
    assert made.id not in {file.id for file in files.list(after=made.id)}
    assert files.content(made.id).content == content
    with files.with_streaming_response.content(made.id) as streamed:
        assert b"".join(streamed.iter_bytes(4)) == content
    ranged = files.with_raw_response.content(made.id, extra_headers={"Range": "bytes=2-4"})
    assert (ranged.http_response.status_code, ranged.content) == (206, content[2:5])
    with pytest.warns(DeprecationWarning, match="content"):
        assert files.retrieve_content(made.id) == content.decode()
    gone = files.delete(made.id)
    assert (gone.id, gone.object, gone.deleted) == (made.id, "file", True)
    with pytest.raises(openai.NotFoundError):
        files.retrieve(made.id)


def test_the_official_client_does_all_that_it_can_with_uploads(
    client: Client, tmp_path: Path
) -> None:
    uploads = client.openai.uploads
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(json.dumps(client.row(f"r{n}")).encode() + b"\n" for n in range(9)))

    chunked = uploads.upload_file_chunked(
        file=path, mime_type="application/jsonl", purpose="batch", part_size=500
    )
    begun = uploads.create(bytes=6, filename="six.txt", mime_type="text/plain", purpose="user_data")
    second = uploads.parts.create(begun.id, data=b"456")
    first = uploads.parts.create(begun.id, data=b"123")
    done = uploads.complete(
        begun.id, part_ids=[first.id, second.id], md5="e10adc3949ba59abbe56e057f20f883e"
    )
    cancelled = uploads.cancel(
        uploads.create(bytes=1, filename="a", mime_type="text/plain", purpose="batch").id
    )

    assert chunked.status == done.status == "completed"
    assert chunked.file is not None
    assert client.openai.files.content(chunked.file.id).content == path.read_bytes()
    assert done.file is not None
    assert client.openai.files.content(done.file.id).text == "123456"
    assert (first.object, first.upload_id) == ("upload.part", begun.id)
    assert (cancelled.status, cancelled.file) == ("cancelled", None)


def test_the_official_client_does_all_that_it_can_with_batches(client: Client) -> None:
    batches = client.openai.batches
    rows = [client.row("a"), client.row("b", temperature=999)]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    file = client.openai.files.create(file=("in.jsonl", data), purpose="batch")

    made = batches.create(
        input_file_id=file.id,
        endpoint=CHAT_COMPLETIONS,
        completion_window="24h",
        metadata={"team": "night"},
        output_expires_after={"anchor": "created_at", "seconds": 7200},
    )
    ended = client.wait(made)

    assert (made.object, made.status, made.metadata) == ("batch", "validating", {"team": "night"})
    assert made.expires_at == made.created_at + 86400
    assert (ended.status, counts(ended)) == ("completed", (2, 1, 1))
    assert ended.completed_at is not None
    assert ended.usage is not None
    assert ended.usage.total_tokens == ended.usage.input_tokens + ended.usage.output_tokens > 0
    (line,) = client.read(ended.output_file_id)
    assert line["response"]["status_code"] == 200
    assert line["response"]["body"]["object"] == "chat.completion"
    assert ended.output_file_id is not None
    output = client.openai.files.retrieve(ended.output_file_id)
    assert output.purpose == "batch_output"
    assert output.expires_at == output.created_at + 7200
    (refused,) = client.read(ended.error_file_id)
    assert (refused["error"], refused["response"]["status_code"]) == (None, 400)
    assert ended.id in {batch.id for batch in batches.list(limit=1)}
    assert ended.id not in {batch.id for batch in batches.list(after=ended.id)}
    with pytest.raises(openai.ConflictError):
        batches.cancel(ended.id)
    assert batches.with_raw_response.retrieve(ended.id).parse().id == ended.id
    cancelled = batches.cancel(client.submit([client.row("c")]).id)
    assert cancelled.status in ("cancelling", "cancelled")


def test_an_endpoint_is_tried_told_of_a_batch_and_verified_by_the_official_client(
    client: Client,
) -> None:
    webhooks = client.openai.webhooks
    with receiving() as receiver:
        endpoint = webhooks.create(name="e", url=receiver.url, event_types=["batch.completed"])
        tried = webhooks.test(endpoint.id, event_type="batch.completed")
        sample = receiver.next(timeout=DEADLINE)
        batch = client.wait(client.submit([client.row("a")]))
        posted = receiver.next(timeout=DEADLINE)
        webhooks.delete(endpoint.id)

    assert (tried.status_code, tried.success) == (204, True)
    for each in (sample, posted):
        webhooks.verify_signature(each.body, each.headers, secret=endpoint.signing_secret)
    assert json.loads(posted.body)["data"] == {"id": batch.id}
    (delivered,) = deliveries(client, endpoint.id)
    assert delivered["event_id"] == posted.headers["webhook-id"]


def deliveries(client: Client, endpoint_id: str) -> list[dict[str, Any]]:
    """What was sent to an endpoint, samples apart; its sender writes that down after the answer."""
    deadline, path = time.monotonic() + DEADLINE, "/v1/webhook_deliveries?status=delivered"
    while time.monotonic() < deadline:
        told = client.http.get(f"{path}&endpoint_id={endpoint_id}").json()["data"]
        if sent := [each for each in told if not each["test"]]:
            return sent
        time.sleep(0.05)
    raise AssertionError("nothing was delivered")


@pytest.mark.law("P30")
def test_a_prefix_is_never_shared_with_another_tenant(client: Client, stranger: Client) -> None:
    words = "the quick brown fox jumps over the lazy dog " * 3
    body = {"messages": [{"role": "user", "content": words}], "max_tokens": 1, "temperature": 0}

    ours = [cached_tokens(client, body) for _ in range(2)]
    theirs = [cached_tokens(stranger, body) for _ in range(2)]

    assert ours[1] > 0
    assert theirs[0] == 0
    assert theirs[1] > 0
    salted = client.http.post(
        CHAT_COMPLETIONS, json=body | {"model": client.model, "cache_salt": "x"}
    )
    assert salted.json()["error"]["code"] == "unknown_parameter"


def cached_tokens(client: Client, body: dict[str, Any]) -> int:
    answer = client.http.post(CHAT_COMPLETIONS, json=body | {"model": client.model})
    answer.raise_for_status()
    found: int = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return found


@contextmanager
def overheard(broker_url: str) -> Iterator[list[str]]:
    """Every command that Redis is sent meanwhile."""
    heard, redis = list[str](), Redis.from_url(broker_url)
    with redis.monitor() as monitor:
        thread = threading.Thread(target=_listen, args=[monitor, heard])
        thread.start()
        yield heard
        redis.set("the-end", 1)
        thread.join(DEADLINE)
        redis.delete("the-end")
    redis.close()


def _listen(monitor: Monitor, heard: list[str]) -> None:
    for command in monitor.listen():
        heard.append(command["command"])
        if "the-end" in command["command"]:
            return


def test_no_secret_and_no_text_of_a_user_is_in_any_log_in_redis_or_in_metrics(
    client: Client, stack: UpStack
) -> None:
    canaries = standing_secrets(stack)

    with overheard(stack.facts.broker_url) as heard:
        canaries |= run_with_canaries(client)
        pages = refused_calls(client, canaries["prompt"], canaries["wrong key"])

    places = {path.name: path.read_text(errors="replace") for path in logs(stack)}
    assert {"api.log", "control.log"} <= places.keys()
    places |= pages | scraped(stack) | {"redis": "\n".join(heard)}
    assert "gristmill:" in places["redis"]
    found = [
        (what, where)
        for what, text in canaries.items()
        for where, said in places.items()
        if text in said
    ]
    assert found == []


def standing_secrets(stack: UpStack) -> dict[str, str]:
    return {
        "key": stack.facts.api_key,
        "wrong key": f"gm_{uuid4().hex}",
        "tenant's webhook secret": stack.facts.webhook_secret,
        "broker's password": str(urlsplit(stack.facts.broker_url).password),
        "storage's key": stack.facts.storage["secret_key"],
    }


def run_with_canaries(client: Client) -> dict[str, str]:
    """A batch with a row that is answered and one that is refused, and webhooks that arrive and
    that do not.  Returns whatever of it is nobody's business."""
    prompt, output = f"canary-{uuid4().hex}", f"output {uuid4().hex}"
    rows = [
        client.row("a", prompt, max_tokens=99, guided_choice=[output]),
        client.row("b", prompt, temperature=999),
    ]
    with receiving() as receiver:
        endpoint = client.openai.webhooks.create(
            name="canary", url=receiver.url, event_types=["batch.completed"]
        )
        batch = client.wait(client.submit(rows, webhook_url="http://127.0.0.1:1/nobody"))
        receiver.next(timeout=DEADLINE)
    (line,) = client.read(batch.output_file_id)
    assert line["response"]["body"]["choices"][0]["message"]["content"] == output
    told = {"prompt": prompt, "output": output, "endpoint's secret": endpoint.signing_secret}
    return told | presigned(client, batch.output_file_id)


def scraped(stack: UpStack) -> dict[str, str]:
    """The metrics of every process."""
    urls = (f"{stack.facts.api_url}/metrics", *stack.facts.metrics_urls)
    return {url: httpx.get(url, trust_env=False).text for url in urls}


def presigned(client: Client, file_id: str | None) -> dict[str, str]:
    """The signatures of a link to a file and of one for a part."""
    read = client.http.get(f"/v1/files/{file_id}/content?redirect=true").headers["location"]
    upload = client.openai.uploads.create(
        bytes=1, filename="a", mime_type="text/plain", purpose="batch"
    )
    part = client.http.post(f"/v1/uploads/{upload.id}/parts", json={"bytes": 1}).json()
    write = part["upload_url"]
    httpx.put(write, content=b"x", trust_env=False).raise_for_status()
    assert httpx.get(read, trust_env=False).status_code == 200
    return {
        what: parse_qs(urlsplit(link).query)["X-Amz-Signature"][0]
        for what, link in (("read link", read), ("write link", write))
    }


def refused_calls(client: Client, prompt: str, wrong_key: str) -> dict[str, str]:
    """The pages of calls that go wrong in several ways, each with a canary in it."""
    answers = {
        "bad json": client.http.post("/v1/jobs", content=f'{{"{prompt}"'),
        "bad model": client.http.post(
            CHAT_COMPLETIONS,
            json={"model": "nobody", "messages": [{"role": "user", "content": prompt}]},
        ),
        "bad key": client.http.get("/v1/models", headers={"Authorization": f"Bearer {wrong_key}"}),
        "bad body": client.http.post(
            CHAT_COMPLETIONS,
            json={"model": client.model, "messages": [{"role": "user", "content": [prompt]}]},
        ),
    }
    assert all(400 <= answer.status_code < 500 for answer in answers.values())
    return {f"page of {what}": answer.text for what, answer in answers.items()}


def logs(stack: UpStack) -> list[Path]:
    return sorted((stack.data_dir / "logs").iterdir())
