"""Every error has OpenAI's shape, the right status, and no 500 comes of a client's doing."""

import socket
from collections.abc import Iterator
from typing import Any, Final

import openai
import pytest

from tests.integration.api.conftest import MAX_JSON, Tenant

CHAT: Final = "/v1/chat/completions"
POSTS = ("/v1/jobs", "/v1/batches")
JSON = {"Content-Type": "application/json"}


def error_of(answer: Any) -> dict[str, Any]:
    """The error, whose shape is checked."""
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"].endswith(".")
    assert error["type"] in ("invalid_request_error", "rate_limit_error", "server_error")
    return error


BODIES = {
    "nothing": b"",
    "half an object": b'{"model": ',
    "a trailing comma": b'{"model": "a",}',
    "a list": b"[]",
    "a number": b"1",
    "NaN": b'{"model": NaN}',
    "Infinity": b'{"model": -Infinity}',
    "a float too large": b'{"model": 1e999}',
    "an integer too large": b'{"model": ' + b"9" * 5000 + b"}",
    "an integer of 21 digits": b'{"model": ' + b"9" * 21 + b"}",
    "a key twice": b'{"model": "a", "model": "b"}',
    "a key twice, deep inside": b'{"body": {"a": [{"b": 1, "b": 2}]}}',
    "65 levels": b'{"body": ' + b"[" * 64 + b"]" * 64 + b"}",
    "100,000 levels": b"[" * 100_000 + b"]" * 100_000,
    "half a surrogate pair": b'{"model": "\\ud800"}',
    "half a surrogate pair as a key": b'{"\\udfff": 1}',
    "bytes that are not UTF-8": b'{"model": "\xff"}',
    "UTF-16": '{"model": "a"}'.encode("utf-16"),
    "a byte-order mark": b'\xef\xbb\xbf{"model": "a"}',
    "a raw control character": b'{"model": "\x00"}',
    "an escaped U+0000 as a key": b'{"\\u0000": 1}',
}


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("case", BODIES, ids=str)
def test_a_body_that_cannot_be_read_is_a_400(tenant: Tenant, path: str, case: str) -> None:
    answer = tenant.http.post(path, content=BODIES[case], headers=JSON)

    assert answer.status_code == 400
    error_of(answer)


@pytest.mark.parametrize("path", POSTS)
def test_a_body_over_the_limit_is_refused_by_its_counted_bytes(tenant: Tenant, path: str) -> None:
    def body() -> Iterator[bytes]:  # chunked: no length is declared
        for _ in range(MAX_JSON // 2**16 + 1):
            yield b" " * 2**16

    answer = tenant.http.post(path, content=body(), headers=JSON)

    assert answer.status_code == 413
    assert error_of(answer)["code"] == "too_large"


@pytest.mark.parametrize("path", [*POSTS, CHAT])
def test_a_body_whose_rest_never_comes_is_not_waited_for(
    tenant: Tenant, base_url: str, path: str
) -> None:
    host, port = base_url.removeprefix("http://").split(":")
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"

    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(f"{head}Authorization: Bearer {tenant.key}\r\n\r\n{{".encode())
        answer = client.recv(2**16)

    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("path", [*POSTS, "/v1/files"])
def test_a_compressed_body_is_refused_unread(tenant: Tenant, path: str) -> None:
    answer = tenant.http.post(path, content=b"", headers={"Content-Encoding": "gzip"})

    assert answer.status_code == 400
    assert error_of(answer)["param"] == "Content-Encoding"


def test_an_empty_body_is_said_to_be_empty(tenant: Tenant) -> None:
    answer = tenant.http.post("/v1/batches", content=b"", headers=JSON)

    assert error_of(answer)["message"] == "The body is empty; it must be a JSON object."


def test_a_header_that_is_wrong_is_called_by_its_name(tenant: Tenant) -> None:
    begin = {"bytes": 0, "filename": "a", "mime_type": "text/plain", "purpose": "batch"}

    answer = tenant.http.post("/v1/uploads", json=begin, headers={"Idempotency-Key": "k" * 256})

    message = error_of(answer)["message"]
    assert message == "'Idempotency-Key': must have at most 255 characters."


def test_a_text_that_is_too_short_lacks_characters_not_elements(tenant: Tenant) -> None:
    begin = {"bytes": 0, "filename": "", "mime_type": "text/plain", "purpose": "batch"}

    answer = tenant.http.post("/v1/uploads", json=begin)

    assert error_of(answer)["message"] == "'filename': must have 1 or more characters."


def test_whoever_opens_the_bare_address_is_told_where_to_go(tenant: Tenant) -> None:
    answer = tenant.http.get("/")

    assert answer.status_code == 404
    assert "/dashboard" in error_of(answer)["message"]


def test_an_unknown_route_is_a_404_of_the_same_shape(tenant: Tenant) -> None:
    answer = tenant.http.get("/v1/nothing")

    assert answer.status_code == 404
    assert error_of(answer)["code"] == "unknown_url"


@pytest.mark.parametrize("path", ["/batches", "/files/file-1/content", "/chat/completions"])
def test_a_base_url_without_v1_is_told_what_is_missing(tenant: Tenant, path: str) -> None:
    answer = tenant.http.post(path, json={})

    assert answer.status_code == 404
    assert f"It is /v1{path}: the base URL of a client ends in /v1." in error_of(answer)["message"]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/embeddings", "/v1/moderations"])
def test_an_endpoint_that_is_not_supported_names_those_that_are(tenant: Tenant, path: str) -> None:
    message = error_of(tenant.http.post(path, json={}))["message"]

    assert "Not supported here" in message
    assert "/v1/chat/completions and /v1/completions" in message


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("file-abc", "There is no file 'file-abc'."),
        ("night.jsonl", "There is no file 'night.jsonl'. The id of a file begins with 'file-'."),
    ],
)
def test_an_id_that_names_nothing_is_said_to_name_nothing(
    tenant: Tenant, name: str, says: str
) -> None:
    answer = tenant.http.get(f"/v1/files/{name}")

    assert answer.status_code == 404
    assert error_of(answer)["message"] == says


def test_a_wrong_method_is_a_405_that_says_which_are_right(tenant: Tenant) -> None:
    answer = tenant.http.put("/v1/jobs")

    assert answer.status_code == 405
    assert error_of(answer)["code"] == "method_not_allowed"
    assert answer.headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/{}",
        "/v1/batches/{}",
        "/v1/files/{}",
        "/v1/files/{}/content",
    ],
)
@pytest.mark.parametrize(
    "name",
    ["x", "job_", "job_" + "0" * 32, "batch_" + "0" * 32, "file-" + "0" * 32, "%00", "%ff", "٣"],
)
def test_an_id_that_names_nothing_is_a_404(tenant: Tenant, path: str, name: str) -> None:
    answer = tenant.http.get(path.format(name))

    assert answer.status_code == 404
    assert error_of(answer)["code"] == "not_found"


@pytest.mark.parametrize("name", ["nobody", "%00", "a/b", "%ff"])
def test_an_unknown_model_is_a_404(tenant: Tenant, name: str) -> None:
    answer = tenant.http.get(f"/v1/models/{name}")

    assert answer.status_code == 404
    assert error_of(answer)["code"] == "model_not_found"


def test_the_official_client_reads_our_errors(tenant: Tenant) -> None:
    with pytest.raises(openai.NotFoundError) as refusal:
        tenant.openai.batches.create(
            input_file_id="file-" + "0" * 32, endpoint=CHAT, completion_window="24h"
        )

    assert refusal.value.code == "not_found"
    assert refusal.value.param == "input_file_id"
    assert refusal.value.type == "invalid_request_error"
