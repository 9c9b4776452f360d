"""Bulk that goes round the API: a drop folder, a file by reference, outputs that go home."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import boto3
import httpx
import pytest

from tests.e2e.client import CHAT_COMPLETIONS, Client, extra
from tests.fixtures.folders import open_folder
from tests.fixtures.stack import UpStack, starting_in
from tests.integration.cli.processes import wait_for

BUCKET = "acme-data"


@pytest.fixture(scope="module")
def stack() -> Iterator[UpStack]:
    with open_folder() as folder, starting_in(folder) as start:
        yield start(DROPS__LOOK_EVERY="PT0.3S")


@pytest.fixture(scope="module")
def client(stack: UpStack) -> Iterator[Client]:
    with Client(stack.facts) as client:
        yield client


@pytest.fixture(scope="module")
def s3(stack: UpStack) -> Iterator[Any]:
    """A client of the tenant's own bucket."""
    storage = stack.facts.storage
    s3 = boto3.client(
        "s3",
        endpoint_url=storage["endpoint"],
        region_name="us-east-1",
        aws_access_key_id=storage["access_key"],
        aws_secret_access_key=storage["secret_key"],
    )
    s3.create_bucket(Bucket=BUCKET)
    yield s3
    s3.close()


def tenants(stack: UpStack, *arguments: str) -> None:
    command = [sys.executable, "-m", "cli", "tenants", *arguments]
    subprocess.run([*command, "--data-dir", str(stack.data_dir)], check=True)


def custom_ids(s3: Any, key: str) -> list[str]:
    content = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return [json.loads(line)["custom_id"] for line in content.splitlines()]


def keys(s3: Any, prefix: str) -> set[str]:
    page = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return {found["Key"] for found in page.get("Contents", ())}


def lines(client: Client, *custom_ids: str) -> bytes:
    return b"".join(json.dumps(client.row(each)).encode() + b"\n" for each in custom_ids)


def test_what_is_dropped_comes_back_beside_it(stack: UpStack, client: Client, s3: Any) -> None:
    tenants(stack, "drop", "default", f"s3://{BUCKET}/drop")
    bad = {**client.row("bad"), "body": {"model": client.model, "messages": "none"}}

    s3.put_object(
        Bucket=BUCKET,
        Key="drop/tickets.jsonl",
        Body=lines(client, "a", "b") + json.dumps(bad).encode(),
    )
    s3.put_object(Bucket=BUCKET, Key="drop/broken.jsonl", Body=b"{")
    there = {"drop/tickets.output.jsonl", "drop/tickets.error.jsonl", "drop/broken.error.jsonl"}
    wait_for(lambda: there <= keys(s3, "drop/"), seconds=60)

    assert custom_ids(s3, "drop/tickets.output.jsonl") == ["a", "b"]
    assert custom_ids(s3, "drop/tickets.error.jsonl") == ["bad"]
    prefixes = [extra(batch, "output_prefix") for batch in client.openai.batches.list()]
    dropped = f"s3://{BUCKET}/drop/"
    found = sorted(str(prefix) for prefix in prefixes if str(prefix).startswith(dropped))
    assert found == [f"{dropped}broken.", f"{dropped}tickets."]  # and none of its own results


def test_a_file_by_reference_runs_and_its_output_goes_home(
    stack: UpStack, client: Client, s3: Any
) -> None:
    tenants(stack, "allow", "default", f"s3://{BUCKET}/")
    s3.put_object(Bucket=BUCKET, Key="in.jsonl", Body=lines(client, "a", "b"))
    body = {"source": f"s3://{BUCKET}/in.jsonl", "purpose": "batch"}

    file: httpx.Response = client.http.post("/v1/files", json=body)
    batch = client.openai.batches.create(
        input_file_id=file.json()["id"],
        endpoint=CHAT_COMPLETIONS,
        completion_window="24h",
        extra_body={"output_prefix": f"s3://{BUCKET}/out"},
    )
    ended = client.wait(batch)

    assert ended.status == "completed"
    (key,) = keys(s3, "out/")
    assert custom_ids(s3, key) == ["a", "b"]
    assert client.ids(ended.output_file_id) == ["a", "b"]
