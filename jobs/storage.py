"""The S3 bucket: segments, shard inputs and files, under keys that we make.

Objects are immutable: a key names its job and attempt, so no writer meets another's object.  Every
call has a deadline and a bounded number of tries; then it raises StorageUnavailable.
"""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from jobs.errors import FileChanged, NotDeleted, StorageUnavailable
from jobs.multipart import PART_SIZE, abort, regrouped, writing
from jobs.s3 import connect, errors_named, status_of
from jobs.settings import StorageSettings

_READ_SIZE = 256 * 2**10
_DELETE_PAGE = 1000


@dataclass(frozen=True, slots=True)
class StoredObject:
    """`etag` names these very bytes, in quotes as S3 writes it."""

    key: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class ListedObject:
    key: str
    modified: datetime  # by the store's clock


class Storage:
    """One bucket.  One per process, made after any fork; safe to share between threads."""

    def __init__(self, settings: StorageSettings) -> None:
        self.bucket = settings.bucket
        self._s3 = connect(settings)

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
        with errors_named():
            self._s3.put_object(Bucket=self.bucket, Key=key, Body=data)

    def put_new(self, key: str, data: bytes) -> bool:
        """Write an object unless there is one.  Not every store heeds the condition."""
        try:
            self._s3.put_object(Bucket=self.bucket, Key=key, Body=data, IfNoneMatch="*")
        except BotoCoreError as error:
            raise StorageUnavailable(f"S3: {error}") from error
        except ClientError as error:
            if status_of(error) in (409, 412):
                return False
            raise StorageUnavailable(f"S3: {error}") from error
        return True

    def upload(self, key: str, chunks: Iterable[bytes]) -> int:
        """Write one object from `chunks` in multipart, holding one part in memory.

        Returns the bytes written.  Nothing appears under the key unless all of it arrived; an
        exception from `chunks` aborts the upload and comes through.
        """
        parts = regrouped(chunks, PART_SIZE)
        first = next(parts, b"")
        if len(first) < PART_SIZE:
            self.put(key, first)
            return len(first)
        with writing(self._s3, self.bucket, key) as write:
            for part in chain([first], parts):
                write.add(part)
        return write.size

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
        with errors_named():
            try:
                answer = self._s3.get_object(**wanted)
            except ClientError as error:
                if etag is not None and status_of(error) in (404, 412):
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
            if isinstance(error, ClientError) and status_of(error) in (403, 404):
                return None
            raise StorageUnavailable(f"S3: {error}") from error
        return StoredObject(key, answer["ContentLength"], answer["ETag"])

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """All objects whose keys begin with `prefix`, by key, a page of 1,000 at a time."""
        pages = self._s3.get_paginator("list_objects_v2")
        with errors_named():
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for found in page.get("Contents", ()):
                    yield StoredObject(found["Key"], found["Size"], found["ETag"])

    def page(self, *, after: str) -> list[ListedObject]:
        """The 1,000 objects of the bucket whose keys follow `after`."""
        with errors_named():
            answer = self._s3.list_objects_v2(Bucket=self.bucket, StartAfter=after)
        return [
            ListedObject(found["Key"], found["LastModified"])
            for found in answer.get("Contents", ())
        ]

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
        """Raises NotDeleted, once all were asked for, if the store keeps some of them."""
        kept = dict[str, str]()
        with errors_named():
            for at in range(0, len(keys), _DELETE_PAGE):
                page = [{"Key": key} for key in keys[at : at + _DELETE_PAGE]]
                # The stubs want each key in a type that exists only while types are checked.
                answer = self._s3.delete_objects(Bucket=self.bucket, Delete={"Objects": page})  # type: ignore[typeddict-item]
                kept |= {each["Key"]: each.get("Code", "") for each in answer.get("Errors", ())}
        kept = {key: code for key, code in kept.items() if code != "NoSuchKey"}
        if kept:
            raise NotDeleted(frozenset(kept), why=", ".join(sorted(set(kept.values()))))

    def abort_uploads(self, *, begun_before: datetime) -> int:
        """Give back the space of multipart writes that nobody will complete; of how many."""
        pages, aborted = self._s3.get_paginator("list_multipart_uploads"), 0
        with errors_named():
            for page in pages.paginate(Bucket=self.bucket):
                for upload in page.get("Uploads", ()):
                    if upload["Initiated"] < begun_before:
                        abort(self._s3, self.bucket, upload["Key"], upload["UploadId"])
                        aborted += 1
        return aborted

    def ensure_bucket(self) -> None:
        with errors_named():
            names = [bucket["Name"] for bucket in self._s3.list_buckets()["Buckets"]]
            if self.bucket not in names:
                self._s3.create_bucket(Bucket=self.bucket)
