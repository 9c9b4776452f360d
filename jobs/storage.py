"""The S3 bucket: segments, shard inputs and files, under keys that we make.

Objects are immutable: a key names its job and attempt, so no writer meets another's object.  Every
call has a deadline and a bounded number of tries; then it raises StorageUnavailable.
"""

import copy
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from jobs.errors import FileChanged, StorageRefused, StorageUnavailable
from jobs.settings import StorageSettings

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

# Bytes.  S3 takes at most 10,000 parts of at least 5 MiB: 78 GiB at this size.
PART_SIZE = 8 * 2**20
_READ_SIZE = 256 * 2**10
_DELETE_PAGE = 1000

# Of a refusal, those that the same call may be spared a moment later.
_PASSING = (408, 409, 429)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """`etag` names these very bytes, in quotes as S3 writes it."""

    key: str
    size: int
    etag: str


@contextmanager
def _errors_named() -> Iterator[None]:
    try:
        yield
    except BotoCoreError as error:
        raise StorageUnavailable(f"S3: {error}") from error
    except ClientError as error:
        status = _status(error)
        refused = 400 <= status < 500 and status not in _PASSING
        kind = StorageRefused if refused else StorageUnavailable
        raise kind(f"S3: {error}") from error


def _status(error: ClientError) -> int:
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _client(settings: StorageSettings) -> "S3Client":
    config = Config(
        signature_version="s3v4",
        connect_timeout=5,
        read_timeout=30,
        tcp_keepalive=True,
        max_pool_connections=16,
        retries={"mode": "standard", "max_attempts": 4},
        s3={"addressing_style": "path" if settings.endpoint else "auto"},
        # Only Amazon is sure to take the newer checksum trailers; we keep our own sha256.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.session.Session().client(
        "s3",
        endpoint_url=settings.endpoint,
        region_name=settings.region,
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key.get_secret_value(),
        config=config,
    )


class Storage:
    """One bucket.  One per process, made after any fork; safe to share between threads."""

    def __init__(self, settings: StorageSettings) -> None:
        self.bucket = settings.bucket
        self._s3 = _client(settings)

    def within(self, bucket: str | None) -> "Storage":
        """Another bucket that these credentials open, through the same connections."""
        if bucket is None or bucket == self.bucket:
            return self
        other = copy.copy(self)
        other.bucket = bucket
        return other

    def uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def put(self, key: str, data: bytes) -> None:
        with _errors_named():
            self._s3.put_object(Bucket=self.bucket, Key=key, Body=data)

    def upload(self, key: str, chunks: Iterable[bytes]) -> int:
        """Write one object from `chunks` in multipart, holding one part in memory.

        Returns the bytes written.  Nothing appears under the key unless all of it arrived; an
        exception from `chunks` aborts the upload and comes through.
        """
        parts = _regrouped(chunks, PART_SIZE)
        first = next(parts, b"")
        if len(first) < PART_SIZE:
            self.put(key, first)
            return len(first)
        return self._upload_parts(key, first, parts)

    def _upload_parts(self, key: str, first: bytes, rest: Iterator[bytes]) -> int:
        with _errors_named():
            upload_id = self._s3.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
        try:
            size, done = 0, list["CompletedPartTypeDef"]()
            part: bytes | None = first
            while part:
                with _errors_named():
                    answer = self._s3.upload_part(
                        Bucket=self.bucket,
                        Key=key,
                        UploadId=upload_id,
                        PartNumber=len(done) + 1,
                        Body=part,
                    )
                done.append({"ETag": answer["ETag"], "PartNumber": len(done) + 1})
                size += len(part)
                part = next(rest, None)
            self._complete(key, upload_id, parts=done, size=size)
        except BaseException:
            self._abort(key, upload_id)
            raise
        return size

    def _complete(
        self, key: str, upload_id: str, *, parts: list["CompletedPartTypeDef"], size: int
    ) -> None:
        with _errors_named():
            self._s3.complete_multipart_upload(
                Bucket=self.bucket,
                Key=key,
                UploadId=upload_id,
                MultipartUpload={"Parts": parts},
            )
            # S3 silently leaves out parts that the list misses.
            written = self._s3.head_object(Bucket=self.bucket, Key=key)["ContentLength"]
        if written != size:
            raise StorageUnavailable(f"S3: {key} has {written} bytes, {size} were sent")

    def _abort(self, key: str, upload_id: str) -> None:
        # Best effort: an upload left open costs space until the janitor collects it.
        try:
            self._s3.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)
        except (BotoCoreError, ClientError):
            return

    def read(self, key: str) -> bytes:
        return b"".join(self.stream(key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        data = b"".join(self.stream(key, start=start, end=start + length))
        if len(data) != length:
            raise StorageUnavailable(f"S3: {key} gave {len(data)} bytes of {length} at {start}")
        return data

    def stream(
        self, key: str, *, start: int = 0, end: int | None = None, etag: str | None = None
    ) -> Iterator[bytes]:
        """Yield the bytes [start, end) of an object, a bounded chunk at a time.

        Raises FileChanged, before the first byte, if `etag` is given and not the object's.
        """
        wanted: dict[str, Any] = {"Bucket": self.bucket, "Key": key}
        if start > 0 or end is not None:  # an empty object has no range to give
            wanted["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        if etag is not None:
            wanted["IfMatch"] = etag
        with _errors_named():
            try:
                answer = self._s3.get_object(**wanted)
            except ClientError as error:
                if etag is not None and _status(error) in (404, 412):
                    raise self._changed(key) from error
                raise
            yield from answer["Body"].iter_chunks(_READ_SIZE)

    def _changed(self, key: str) -> FileChanged:
        return FileChanged(f"{self.uri(key)} was changed or deleted. Register it again.")

    def find(self, key: str) -> StoredObject | None:
        """What is known of an object without reading it; None if there is none for us."""
        try:
            answer = self._s3.head_object(Bucket=self.bucket, Key=key)
        except (BotoCoreError, ClientError) as error:
            if isinstance(error, ClientError) and _status(error) in (403, 404):
                return None
            raise StorageUnavailable(f"S3: {error}") from error
        return StoredObject(key, answer["ContentLength"], answer["ETag"])

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """All objects whose keys begin with `prefix`, by key, a page of 1,000 at a time."""
        pages = self._s3.get_paginator("list_objects_v2")
        with _errors_named():
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for found in page.get("Contents", ()):
                    yield StoredObject(found["Key"], found["Size"], found["ETag"])

    def presign(self, key: str, *, expires_in: int, etag: str | None = None) -> str:
        """A link that reads one object for `expires_in` seconds.  Raises FileChanged."""
        if etag is not None:
            found = self.find(key)
            if found is None or found.etag != etag:
                raise self._changed(key)
        return self._s3.generate_presigned_url(
            "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=expires_in
        )

    def presign_put(self, key: str, *, size: int, expires_in: int) -> str:
        """A link that writes one object of `size` bytes within `expires_in` seconds.

        Not every store holds its sender to the size: ask for it before the object is used.
        """
        return self._s3.generate_presigned_url(
            "put_object",
            Params={"Bucket": self.bucket, "Key": key, "ContentLength": size},
            ExpiresIn=expires_in,
        )

    def delete(self, keys: list[str]) -> None:
        with _errors_named():
            for at in range(0, len(keys), _DELETE_PAGE):
                page = [{"Key": key} for key in keys[at : at + _DELETE_PAGE]]
                self._s3.delete_objects(Bucket=self.bucket, Delete={"Objects": page})  # type: ignore[typeddict-item]

    def abort_uploads(self, *, older_than: timedelta) -> None:
        """Give back the space of multipart writes that nobody will complete."""
        began_before = datetime.now(UTC) - older_than
        pages = self._s3.get_paginator("list_multipart_uploads")
        with _errors_named():
            for page in pages.paginate(Bucket=self.bucket):
                for upload in page.get("Uploads", ()):
                    if upload["Initiated"] < began_before:
                        self._abort(upload["Key"], upload["UploadId"])

    def ensure_bucket(self) -> None:
        with _errors_named():
            names = [bucket["Name"] for bucket in self._s3.list_buckets()["Buckets"]]
            if self.bucket not in names:
                self._s3.create_bucket(Bucket=self.bucket)

    def probe(self) -> None:
        """Refuse a store that does not give back what it was given.

        Old servers wrote the chunk framing of newer clients into the object (seaweedfs#6548).
        """
        key, sent = f"probe/{uuid.uuid4().hex}", b"gristmill\x00probe\n" * 64
        self.put(key, sent)
        got = self.read(key)
        self.delete([key])
        if got != sent:
            raise StorageUnavailable(f"S3: bucket {self.bucket} changes what is written to it")


def _regrouped(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of exactly `size`, the last one shorter."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)
