"""`/v1/files` as the official client and plain HTTP use it."""

import hashlib
from typing import Any

import httpx
import openai
import pytest
from sqlalchemy import text

from api.services import Services
from jobs.errors import StorageUnavailable
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


def test_a_file_may_expire(tenant: Tenant) -> None:
    expiry: Any = {"anchor": "created_at", "seconds": 3600}

    file = tenant.openai.files.create(
        file=("in.jsonl", LINES), purpose="batch", expires_after=expiry
    )

    assert file.expires_at == file.created_at + 3600


def test_an_expired_file_is_gone_from_everywhere(tenant: Tenant, services: Services) -> None:
    file_id = upload(tenant)
    with services.sessions.begin() as session:
        session.execute(
            text("UPDATE files SET expires_at = now() WHERE id = :id"),
            {"id": file_id.removeprefix("file-")},
        )

    for path in (f"/v1/files/{file_id}", f"/v1/files/{file_id}/content"):
        assert tenant.http.get(path).status_code == 404
    assert tenant.http.delete(f"/v1/files/{file_id}").status_code == 404
    assert list(tenant.openai.files.list()) == []
    with pytest.raises(openai.NotFoundError):
        tenant.openai.batches.create(
            input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
        )


def test_the_fields_may_come_behind_the_file(tenant: Tenant) -> None:
    parts: Any = [("file", ("in.jsonl", LINES)), ("purpose", (None, "batch"))]

    answer = tenant.http.post("/v1/files", files=parts)

    assert answer.status_code == 200
    assert answer.json()["purpose"] == "batch"


def test_a_path_in_a_file_name_is_dropped(tenant: Tenant) -> None:
    file = tenant.openai.files.retrieve(upload(tenant, name="../../etc/passwd.jsonl"))

    assert file.filename == "passwd.jsonl"


def test_a_file_name_of_any_script_survives_the_download(tenant: Tenant) -> None:
    file_id = upload(tenant, name="données «数据».jsonl")

    answer = tenant.http.get(f"/v1/files/{file_id}/content")

    assert tenant.openai.files.retrieve(file_id).filename == "données «数据».jsonl"
    assert (
        "filename*=UTF-8''donn%C3%A9es%20%C2%AB%E6%95%B0%E6%8D%AE%C2%BB"
        in answer.headers["content-disposition"]
    )


@pytest.mark.parametrize(
    ("wanted", "status", "content", "said"),
    [
        ("bytes=0-3", 206, LINES[:4], "bytes 0-3/18"),
        ("bytes=4-", 206, LINES[4:], "bytes 4-17/18"),
        ("bytes=-5", 206, LINES[-5:], "bytes 13-17/18"),
        ("bytes=10-999", 206, LINES[10:], "bytes 10-17/18"),
        ("bytes=-999", 206, LINES, "bytes 0-17/18"),
        ("bytes=3-1", 200, LINES, None),
        ("bytes=0-1,4-5", 200, LINES, None),
        ("lines=0-1", 200, LINES, None),
    ],
)
def test_a_range_gives_those_bytes_alone(
    tenant: Tenant, wanted: str, status: int, content: bytes, said: str | None
) -> None:
    file_id = upload(tenant)

    answer = tenant.http.get(f"/v1/files/{file_id}/content", headers={"Range": wanted})

    assert (answer.status_code, answer.content) == (status, content)
    assert answer.headers.get("content-range") == said
    assert answer.headers["content-length"] == str(len(content))


@pytest.mark.parametrize("wanted", ["bytes=18-", "bytes=99-100", "bytes=-0"])
def test_a_range_behind_the_end_is_refused(tenant: Tenant, wanted: str) -> None:
    file_id = upload(tenant)

    answer = tenant.http.get(f"/v1/files/{file_id}/content", headers={"Range": wanted})

    assert answer.status_code == 416
    assert answer.headers["content-range"] == "bytes */18"
    assert answer.json()["error"]["code"] == "range_not_satisfiable"


def test_an_interrupted_download_can_be_continued_by_its_etag(tenant: Tenant) -> None:
    url = f"/v1/files/{upload(tenant)}/content"
    etag = tenant.http.head(url).headers["etag"]

    same = tenant.http.get(url, headers={"Range": "bytes=4-", "If-Range": etag})
    changed = tenant.http.get(url, headers={"Range": "bytes=4-", "If-Range": '"another"'})
    assert (same.status_code, same.content) == (206, LINES[4:])
    assert (changed.status_code, changed.content) == (200, LINES)


@pytest.mark.parametrize("sent", ["{}", "W/{}", '"another", {}', "*"])
def test_who_has_the_bytes_already_is_not_sent_them_again(tenant: Tenant, sent: str) -> None:
    url = f"/v1/files/{upload(tenant)}/content"
    etag = tenant.http.head(url).headers["etag"]

    known = tenant.http.get(url, headers={"If-None-Match": sent.format(etag)})
    other = tenant.http.get(url, headers={"If-None-Match": '"another", W/"third"'})

    assert (known.status_code, known.content) == (304, b"")
    assert (other.status_code, other.content) == (200, LINES)


def test_head_tells_the_length_without_the_bytes(tenant: Tenant) -> None:
    answer = tenant.http.head(f"/v1/files/{upload(tenant)}/content")

    assert answer.status_code == 200
    assert answer.headers["content-length"] == "18"
    assert answer.headers["accept-ranges"] == "bytes"


def test_a_redirect_leads_to_the_bytes_without_a_key(tenant: Tenant) -> None:
    answer = tenant.http.get(f"/v1/files/{upload(tenant)}/content", params={"redirect": "true"})

    assert answer.status_code == 302
    assert httpx.get(answer.headers["location"]).content == LINES


def test_a_deleted_file_is_gone_from_everywhere(tenant: Tenant, services: Services) -> None:
    file_id = upload(tenant)
    key = tenant.http.get(f"/v1/files/{file_id}").json()["s3_uri"].split("/", 3)[3]

    deleted = tenant.openai.files.delete(file_id)

    assert deleted.deleted
    assert tenant.http.get(f"/v1/files/{file_id}").status_code == 404
    assert tenant.http.delete(f"/v1/files/{file_id}").status_code == 404
    assert list(tenant.openai.files.list()) == []
    with pytest.raises(StorageUnavailable):
        services.storage.read(key)


def test_a_file_that_a_batch_still_reads_cannot_be_deleted(tenant: Tenant) -> None:
    file_id = upload(tenant)
    tenant.openai.batches.create(
        input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
    )

    with pytest.raises(openai.ConflictError) as refusal:
        tenant.openai.files.delete(file_id)

    assert refusal.value.code == "not_allowed_now"
    assert tenant.openai.files.content(file_id).content == LINES


def test_files_are_listed_page_by_page_in_either_order(tenant: Tenant) -> None:
    ids = [upload(tenant) for _ in range(5)]

    newest_first = [file.id for file in tenant.openai.files.list(limit=2)]
    oldest_first = [file.id for file in tenant.openai.files.list(limit=2, order="asc")]

    assert newest_first == ids[::-1]
    assert oldest_first == ids


def test_a_page_begins_behind_a_file_that_was_deleted_meanwhile(tenant: Tenant) -> None:
    ids = [upload(tenant) for _ in range(3)]
    page = tenant.http.get("/v1/files", params={"limit": 1}).json()
    tenant.openai.files.delete(page["last_id"])

    rest = tenant.http.get("/v1/files", params={"after": page["last_id"]}).json()

    assert [file["id"] for file in rest["data"]] == [ids[1], ids[0]]


def test_a_list_may_be_of_one_purpose(tenant: Tenant) -> None:
    upload(tenant)
    data = tenant.openai.files.create(file=("a", LINES), purpose="user_data")

    listed = [file.id for file in tenant.openai.files.list(purpose="user_data")]

    assert listed == [data.id]


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ({"limit": "0"}, 400, "'limit': must be at least 1."),
        ({"limit": "10001"}, 400, "'limit': must be at most 10000."),
        ({"limit": "ten"}, 400, "'limit': must be a whole number."),
        ({"order": "up"}, 400, "'order': must be 'asc' or 'desc'."),
        ({"after": "nothing"}, 404, "There is no file 'nothing'."),
        ({"after": "file-" + "0" * 32}, 404, "'after' names nothing that is yours"),
        ({"purpose": "\x00"}, 400, "'purpose': may not hold U+0000."),
        ({"afer": "file-1"}, 400, "'afer' is not a parameter of this call."),
    ],
    ids=str,
)
def test_a_list_refuses_parameters_that_are_wrong(
    tenant: Tenant, query: dict[str, str], status: int, says: str
) -> None:
    answer = tenant.http.get("/v1/files", params=query)

    assert answer.status_code == status
    assert answer.json()["error"]["param"] == next(iter(query))
    assert answer.json()["error"]["message"].startswith(says)
