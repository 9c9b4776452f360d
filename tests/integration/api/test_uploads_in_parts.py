"""`/v1/uploads` as the official client uses it, and parts that go straight to S3."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from openai.types import Upload
from sqlalchemy import text

from api.services import Services
from tests.integration.api.conftest import MAX_FILE, Tenant

LINES = b'{"a": "\xc3\xa9"}\n{"b": 2}\n'
CUT = LINES.index(b"\xc3") + 1  # within a character


def begin(tenant: Tenant, content: bytes = LINES, **changes: Any) -> Upload:
    return tenant.openai.uploads.create(
        bytes=len(content),
        filename="in.jsonl",
        mime_type="application/jsonl",
        purpose="batch",
        **changes,
    )


def send(tenant: Tenant, upload: Upload, *parts: bytes) -> list[str]:
    return [tenant.openai.uploads.parts.create(upload.id, data=part).id for part in parts]


def ask_for_link(tenant: Tenant, upload: Upload, size: int) -> dict[str, Any]:
    answer = tenant.http.post(f"/v1/uploads/{upload.id}/parts", json={"bytes": size})
    assert answer.status_code == 200, answer.text
    part: dict[str, Any] = answer.json()
    return part


def test_an_upload_begins_pending_for_an_hour(tenant: Tenant) -> None:
    upload = begin(tenant)

    assert upload.id.startswith("upload_")
    assert (upload.object, upload.status, upload.file) == ("upload", "pending", None)
    assert (upload.filename, upload.purpose, upload.bytes) == ("in.jsonl", "batch", len(LINES))
    assert upload.expires_at == upload.created_at + 3600


@pytest.mark.law("P22")
def test_parts_become_a_file_in_the_order_of_the_completion(tenant: Tenant) -> None:
    upload = begin(tenant)
    second, first = send(tenant, upload, LINES[CUT:], LINES[:CUT])

    done = tenant.openai.uploads.complete(upload.id, part_ids=[first, second])

    assert done.status == "completed"
    assert done.file is not None
    assert tenant.openai.files.content(done.file.id).content == LINES
    file = tenant.http.get(f"/v1/files/{done.file.id}").json()
    assert file["sha256"] == hashlib.sha256(LINES).hexdigest()
    assert (file["lines"], file["bytes"], file["filename"]) == (2, len(LINES), "in.jsonl")
    assert file["purpose"] == "batch"


def test_the_clients_own_chunked_upload_works(tenant: Tenant) -> None:
    content = LINES * 100_000

    done = tenant.openai.uploads.upload_file_chunked(
        file=content,
        filename="in.jsonl",
        bytes=len(content),
        mime_type="application/jsonl",
        purpose="batch",
        part_size=700_001,
        md5=hashlib.md5(content).hexdigest(),
    )

    assert done.file is not None
    assert tenant.openai.files.content(done.file.id).content == content


def test_parts_that_come_all_at_once_are_all_there(tenant: Tenant) -> None:
    content = b"".join(b"%04d\n" % n for n in range(32))
    upload = begin(tenant, content)
    pieces = [content[at : at + 10] for at in range(0, len(content), 10)]

    with ThreadPoolExecutor(8) as senders:
        part_ids = [found[0] for found in senders.map(lambda p: send(tenant, upload, p), pieces)]
    done = tenant.openai.uploads.complete(upload.id, part_ids=part_ids)

    assert done.file is not None
    assert tenant.openai.files.content(done.file.id).content == content


def test_a_part_may_go_straight_to_s3(tenant: Tenant) -> None:
    upload = begin(tenant)
    part = ask_for_link(tenant, upload, CUT)
    (rest,) = send(tenant, upload, LINES[CUT:])

    put = httpx.put(part["upload_url"], content=LINES[:CUT])
    done = tenant.openai.uploads.complete(upload.id, part_ids=[part["id"], rest])

    assert put.status_code == 200
    assert (part["object"], part["upload_id"]) == ("upload.part", upload.id)
    assert done.file is not None
    assert tenant.openai.files.content(done.file.id).content == LINES


def test_a_link_takes_a_part_of_its_size_alone(tenant: Tenant) -> None:
    part = ask_for_link(tenant, begin(tenant), len(LINES))

    assert httpx.put(part["upload_url"], content=LINES[1:]).status_code == 403


def test_a_part_that_never_arrived_is_named(tenant: Tenant) -> None:
    upload = begin(tenant)
    part = ask_for_link(tenant, upload, len(LINES))

    with pytest.raises(openai.BadRequestError, match=f"{part['id']} has not been put") as refusal:
        tenant.openai.uploads.complete(upload.id, part_ids=[part["id"]])

    assert refusal.value.param == "part_ids"


def test_a_part_of_another_size_than_promised_is_named(tenant: Tenant, services: Services) -> None:
    upload = begin(tenant)
    part = ask_for_link(tenant, upload, len(LINES))
    key = urlsplit(part["upload_url"]).path.split("/", 2)[2]
    services.storage.put(key, LINES[1:])  # a store that does not hold the link's user to its size

    with pytest.raises(openai.BadRequestError, match=f"{part['id']} has 20 bytes"):
        tenant.openai.uploads.complete(upload.id, part_ids=[part["id"]])


def test_an_expiry_is_the_files(tenant: Tenant) -> None:
    upload = begin(tenant, expires_after={"anchor": "created_at", "seconds": 7200})

    done = tenant.openai.uploads.complete(upload.id, part_ids=send(tenant, upload, LINES))

    assert done.file is not None
    assert done.file.expires_at == done.file.created_at + 7200


def test_an_empty_file_needs_no_part(tenant: Tenant) -> None:
    upload = begin(tenant, b"")

    done = tenant.openai.uploads.complete(upload.id, part_ids=[])

    assert done.file is not None
    assert tenant.openai.files.content(done.file.id).content == b""


def test_a_completion_sent_again_gives_the_same_file(tenant: Tenant) -> None:
    upload = begin(tenant)
    part_ids = send(tenant, upload, LINES)
    first = tenant.openai.uploads.complete(upload.id, part_ids=part_ids)

    again = tenant.openai.uploads.complete(upload.id, part_ids=part_ids)

    assert again == first
    assert len(list(tenant.openai.files.list())) == 1


def test_completions_at_once_make_one_file(tenant: Tenant) -> None:
    upload = begin(tenant)
    part_ids = send(tenant, upload, LINES)

    with ThreadPoolExecutor(4) as senders:
        ended = list(
            senders.map(
                lambda _: tenant.openai.uploads.complete(upload.id, part_ids=part_ids), range(4)
            )
        )

    assert len({done.file.id for done in ended if done.file is not None}) == 1
    assert len(list(tenant.openai.files.list())) == 1


WRONG: dict[str, tuple[list[bytes], list[int], dict[str, Any], str]] = {
    "too few bytes": ([LINES[:-1]], [0], {}, "part_ids"),
    "a part twice": ([LINES], [0, 0], {}, "part_ids"),
    "another md5": ([LINES], [0], {"md5": "0" * 32}, "md5"),
}


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_parts_that_do_not_make_the_file_are_refused_and_may_be_completed_rightly(
    tenant: Tenant, case: str
) -> None:
    parts, order, extra, param = WRONG[case]
    upload = begin(tenant)
    part_ids = send(tenant, upload, *parts)

    with pytest.raises(openai.BadRequestError) as refusal:
        tenant.openai.uploads.complete(upload.id, part_ids=[part_ids[n] for n in order], **extra)

    assert refusal.value.param == param
    assert list(tenant.openai.files.list()) == []
    right = tenant.openai.uploads.complete(upload.id, part_ids=send(tenant, upload, LINES))
    assert right.status == "completed"


def test_text_that_is_not_utf8_is_refused(tenant: Tenant) -> None:
    content = '{"a": "é"}'.encode("latin-1")
    upload = begin(tenant, content)

    with pytest.raises(openai.BadRequestError, match="byte 7 is not text") as refusal:
        tenant.openai.uploads.complete(upload.id, part_ids=send(tenant, upload, content))

    assert refusal.value.code == "invalid_encoding"


def test_an_unknown_part_is_refused(tenant: Tenant) -> None:
    upload, another = begin(tenant), begin(tenant)
    part_ids = send(tenant, another, LINES)

    with pytest.raises(openai.BadRequestError):
        tenant.openai.uploads.complete(upload.id, part_ids=part_ids)
    with pytest.raises(openai.NotFoundError):
        tenant.openai.uploads.complete(upload.id, part_ids=["part_x"])


def test_a_cancelled_upload_takes_nothing_more(tenant: Tenant) -> None:
    upload = begin(tenant)
    part_ids = send(tenant, upload, LINES)

    cancelled = tenant.openai.uploads.cancel(upload.id)
    again = tenant.openai.uploads.cancel(upload.id)

    assert cancelled.status == again.status == "cancelled"
    with pytest.raises(openai.ConflictError):
        send(tenant, upload, LINES)
    with pytest.raises(openai.ConflictError):
        tenant.openai.uploads.complete(upload.id, part_ids=part_ids)


def test_a_completed_upload_cannot_be_cancelled_or_completed_otherwise(tenant: Tenant) -> None:
    upload = begin(tenant)
    one, other = send(tenant, upload, LINES, LINES)
    tenant.openai.uploads.complete(upload.id, part_ids=[one])

    with pytest.raises(openai.ConflictError):
        tenant.openai.uploads.cancel(upload.id)
    with pytest.raises(openai.ConflictError):
        tenant.openai.uploads.complete(upload.id, part_ids=[other])


def test_an_upload_expires(tenant: Tenant, services: Services) -> None:
    upload = begin(tenant)
    part_ids = send(tenant, upload, LINES)
    with services.sessions.begin() as session:
        session.execute(
            text("UPDATE uploads SET expires_at = now() WHERE id = :id"),
            {"id": upload.id.removeprefix("upload_")},
        )

    with pytest.raises(openai.ConflictError, match="expired"):
        tenant.openai.uploads.complete(upload.id, part_ids=part_ids)

    assert tenant.http.get(f"/v1/uploads/{upload.id}").json()["status"] == "expired"


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "no bytes": ({"bytes": -1}, 400, "bytes"),
    "too many bytes": ({"bytes": MAX_FILE + 1}, 413, "bytes"),
    "an unknown purpose": ({"purpose": "sing"}, 400, "purpose"),
    "a purpose of ours": ({"purpose": "batch_output"}, 400, "purpose"),
    "no name": ({"filename": ""}, 400, "filename"),
    "a misspelt parameter": ({"mimetype": "a"}, 400, "mimetype"),
    "an expiry too soon": (
        {"expires_after": {"anchor": "created_at", "seconds": 60}},
        400,
        "expires_after.seconds",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_an_upload_that_is_wrong_is_refused(tenant: Tenant, case: str) -> None:
    changes, status, param = REFUSED[case]
    body = {"bytes": 1, "filename": "a", "mime_type": "b", "purpose": "batch"} | changes

    answer = tenant.http.post("/v1/uploads", json=body)

    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)


def test_a_part_over_64_mib_is_refused(tenant: Tenant) -> None:
    answer = tenant.http.post(f"/v1/uploads/{begin(tenant).id}/parts", json={"bytes": 2**26 + 1})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "bytes"


def test_a_form_without_data_is_refused(tenant: Tenant) -> None:
    parts: Any = [("file", ("a", LINES))]

    answer = tenant.http.post(f"/v1/uploads/{begin(tenant).id}/parts", files=parts)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unknown_parameter"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("POST", "/parts", {"bytes": 1}),
        ("POST", "/complete", {"part_ids": []}),
        ("POST", "/cancel", None),
    ],
)
def test_anothers_upload_is_a_404_and_stays_as_it_was(
    tenant: Tenant, other: Tenant, method: str, path: str, body: Any
) -> None:
    upload = begin(tenant)

    answer = other.http.request(method, f"/v1/uploads/{upload.id}{path}", json=body)

    assert answer.status_code == 404
    assert tenant.http.get(f"/v1/uploads/{upload.id}").json()["status"] == "pending"
