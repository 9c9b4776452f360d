"""`/v1/files` as the official client and plain HTTP use it."""

import hashlib

from api.services import Services
from tests.integration.api.conftest import Tenant

LINES = b'{"a": 1}\n{"b": 2}\n'


def upload(tenant: Tenant, content: bytes = LINES, name: str = "in.jsonl") -> str:
    return tenant.openai.files.create(file=(name, content), purpose="batch").id


def test_a_file_comes_back_as_it_was_sent(tenant: Tenant) -> None:
    sent = tenant.openai.files.create(file=("in.jsonl", LINES), purpose="batch")

    found = tenant.openai.files.retrieve(sent.id)
    content = tenant.openai.files.content(sent.id).content

    assert content == LINES
    assert found == sent
    assert (found.filename, found.purpose, found.bytes) == ("in.jsonl", "batch", len(LINES))
    assert found.status == "processed"
    assert found.expires_at is None


def test_a_file_says_its_hash_its_lines_and_where_it_lies(
    tenant: Tenant, services: Services
) -> None:
    content = LINES + b'{"the last line": "has no line feed"}'

    file = tenant.http.get(f"/v1/files/{upload(tenant, content)}").json()

    assert file["sha256"] == hashlib.sha256(content).hexdigest()
    assert file["lines"] == 3
    scheme, _, rest = file["s3_uri"].partition("://")
    bucket, _, key = rest.partition("/")
    assert (scheme, bucket) == ("s3", services.storage.bucket)
    assert services.storage.read(key) == content


def test_a_file_larger_than_a_part_comes_back_whole(tenant: Tenant) -> None:
    content = (b"x" * 1023 + b"\n") * 10 * 1024  # 10 MiB; a part has 8

    file_id = upload(tenant, content)

    assert tenant.openai.files.content(file_id).content == content


def test_an_empty_file_is_a_file(tenant: Tenant) -> None:
    file_id = upload(tenant, b"")

    answer = tenant.http.get(f"/v1/files/{file_id}/content")

    assert answer.content == b""
    assert answer.headers["content-length"] == "0"
