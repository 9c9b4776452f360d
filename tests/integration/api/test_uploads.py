"""What `POST /v1/files` refuses, and that it leaves nothing behind then."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import httpx
import openai
import pytest

from jobs.settings import StorageSettings
from tests.integration.api.conftest import MAX_FILE, Tenant

LINES = b'{"a": 1}\n{"b": 2}\n'


Kept = Callable[[Tenant], list[str]]


@pytest.fixture
def kept(api_storage: StorageSettings) -> Iterator[Kept]:
    """Lists the keys of a tenant's objects in S3."""
    client = boto3.client(
        "s3",
        endpoint_url=api_storage.endpoint,
        region_name=api_storage.region,
        aws_access_key_id=api_storage.access_key,
        aws_secret_access_key=api_storage.secret_key.get_secret_value(),
    )

    def list_keys(tenant: Tenant) -> list[str]:
        prefix = f"t/{tenant.id.hex}/"
        page = client.list_objects_v2(Bucket=api_storage.bucket, Prefix=prefix)
        return [found["Key"] for found in page.get("Contents", [])]

    yield list_keys
    client.close()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a": 1}\n'.encode("utf-16"), "UTF-16"),
        ('{"a": 1}\n'.encode("utf-16-le"), "UTF-16"),
        ('{"a": "é"}\n'.encode("latin-1"), "byte 7 is not text"),
        (b'{"a": "\xe2\x82', "not UTF-8"),
        (b"\x1f\x8b\x08\x00rest", "gzip"),
    ],
    ids=["utf-16", "utf-16 without a mark", "latin-1", "half a character at the end", "gzip"],
)
def test_a_file_that_is_not_utf8_is_refused_and_not_kept(
    tenant: Tenant, kept: Kept, content: bytes, says: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=says) as refusal:
        tenant.openai.files.create(file=("in.jsonl", content), purpose="batch")

    assert refusal.value.code == "invalid_encoding"
    assert kept(tenant) == []


def test_a_file_over_the_limit_is_refused_by_its_counted_bytes(tenant: Tenant, kept: Kept) -> None:
    def body() -> Iterator[bytes]:  # chunked: no length is declared
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(MAX_FILE // 2**16 + 2):
            yield b"x" * 2**16

    answer = tenant.http.post(
        "/v1/files", content=body(), headers={"Content-Type": "multipart/form-data; boundary=x"}
    )

    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"
    assert kept(tenant) == []


FORMS: dict[str, tuple[Any, str, str | None]] = {
    "no purpose": ([("file", ("a", LINES))], "missing_required_parameter", "purpose"),
    "no file": ([("purpose", (None, "batch"))], "missing_required_parameter", "file"),
    "an unknown purpose": (
        [("file", ("a", LINES)), ("purpose", (None, "sing"))],
        "invalid_value",
        "purpose",
    ),
    "a purpose of ours": (
        [("file", ("a", LINES)), ("purpose", (None, "batch_output"))],
        "invalid_value",
        "purpose",
    ),
    "an unknown part": (
        [("purpose", (None, "batch")), ("colour", (None, "red")), ("file", ("a", LINES))],
        "unknown_parameter",
        "colour",
    ),
    "two files": (
        [("purpose", (None, "batch")), ("file", ("a", LINES)), ("file", ("b", LINES))],
        "invalid_value",
        "file",
    ),
    "an endless field": (
        [("purpose", (None, "b" * 5000)), ("file", ("a", LINES))],
        "invalid_value",
        "purpose",
    ),
    "an expiry without a time": (
        [
            ("purpose", (None, "batch")),
            ("expires_after[anchor]", (None, "created_at")),
            ("file", ("a", LINES)),
        ],
        "invalid_value",
        "expires_after",
    ),
    "an expiry that is too soon": (
        [
            ("purpose", (None, "batch")),
            ("expires_after[anchor]", (None, "created_at")),
            ("expires_after[seconds]", (None, "60")),
            ("file", ("a", LINES)),
        ],
        "invalid_value",
        "expires_after",
    ),
}


@pytest.mark.parametrize("case", FORMS, ids=str)
def test_a_form_that_is_wrong_is_refused_and_nothing_is_kept(
    tenant: Tenant, kept: Kept, case: str
) -> None:
    parts, code, param = FORMS[case]

    answer = tenant.http.post("/v1/files", files=parts)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param)
    assert kept(tenant) == []


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"--x--"),
        (f"multipart/form-data; boundary={'x' * 300}", b"--x--"),
        ("multipart/form-data; boundary=x", b"--y\r\n\r\n"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n{}',
        ),
    ],
    ids=["json", "no boundary", "a boundary too long", "another boundary", "cut off"],
)
def test_a_body_that_is_no_form_is_refused(tenant: Tenant, content_type: str, body: bytes) -> None:
    answer = tenant.http.post("/v1/files", content=body, headers={"Content-Type": content_type})

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_an_upload_that_falls_silent_is_ended(tenant: Tenant) -> None:
    ended = threading.Event()

    def body() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        ended.wait(20)  # the server ends it after one second
        yield b"too late"

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answers: list[httpx.Response] = []
    client = threading.Thread(
        target=lambda: answers.append(
            tenant.http.post("/v1/files", content=body(), headers=headers)
        )
    )
    client.start()
    while 'route="/v1/files",status="408"' not in tenant.http.get("/metrics").text:
        pass
    ended.set()
    client.join()

    assert answers[0].status_code == 408


def test_an_upload_whose_client_goes_away_leaves_nothing(
    tenant: Tenant, kept: Kept, base_url: str
) -> None:
    counted = 'requests_total{method="POST",route="/v1/files",status="400"}'
    before = _metric(tenant, counted)
    host, port = base_url.removeprefix("http://").split(":")

    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n"
            b"Authorization: Bearer " + tenant.key.encode() + b"\r\n\r\n"
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n{'
        )

    while _metric(tenant, counted) == before:
        pass
    assert kept(tenant) == []


def _metric(tenant: Tenant, name: str) -> float:
    lines = tenant.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if name in line)
