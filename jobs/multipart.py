"""Writes one object part by part: all of it or none."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from jobs.errors import StorageUnavailable
from jobs.s3 import errors_named

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

# Bytes.  S3 takes at most 10,000 parts of at least 5 MiB: 78 GiB at this size.
PART_SIZE = 8 * 2**20


class MultipartWrite:
    """One write that has begun.  `size`: the bytes so far."""

    def __init__(self, s3: "S3Client", bucket: str, key: str) -> None:
        self.size = 0
        self._s3 = s3
        self._bucket = bucket
        self._key = key
        self._done: list[CompletedPartTypeDef] = []
        with errors_named():
            self._id = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]

    def add(self, part: bytes) -> None:
        """Write the next part; all but the last have PART_SIZE bytes."""
        number = len(self._done) + 1
        with errors_named():
            answer = self._s3.upload_part(
                Bucket=self._bucket,
                Key=self._key,
                UploadId=self._id,
                PartNumber=number,
                Body=part,
            )
        self._done.append({"ETag": answer["ETag"], "PartNumber": number})
        self.size += len(part)

    def complete(self) -> None:
        with errors_named():
            self._s3.complete_multipart_upload(
                Bucket=self._bucket,
                Key=self._key,
                UploadId=self._id,
                MultipartUpload={"Parts": self._done},
            )
            # S3 silently leaves out parts that the list misses.
            written = self._s3.head_object(Bucket=self._bucket, Key=self._key)["ContentLength"]
        if written != self.size:
            self._withdraw()
            raise StorageUnavailable(f"S3: {self._key} has {written} bytes, {self.size} were sent")

    def _withdraw(self) -> None:
        """Nobody may take half an object for the whole, also where they know its key."""
        with errors_named():
            self._s3.delete_object(Bucket=self._bucket, Key=self._key)

    def abort(self) -> None:
        abort(self._s3, self._bucket, self._key, self._id)


@contextmanager
def writing(s3: "S3Client", bucket: str, key: str) -> Iterator[MultipartWrite]:
    """The object appears when the `with` ends, and not at all if an exception ends it."""
    write = MultipartWrite(s3, bucket, key)
    try:
        yield write
        write.complete()
    except BaseException:
        write.abort()
        raise


def abort(s3: "S3Client", bucket: str, key: str, upload_id: str) -> None:
    # Best effort: an upload left open costs space until the janitor collects it.
    try:
        s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
    except (BotoCoreError, ClientError):
        return


def regrouped(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of exactly `size`, the last one shorter."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)
