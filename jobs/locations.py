"""Places in S3 that people name: `s3://bucket/key`.

A key is taken as it is written.  One that some server might read as another, with `.`, `..` or
nothing between two slashes, is refused, for it could leave the folder that it begins with.  Pure.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from jobs.errors import InvalidValue

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_MAX_KEY = 1024  # bytes, S3's own limit
_SCHEME = "s3://"


@dataclass(frozen=True, slots=True)
class Location:
    """An object, or a folder: then `key` is empty or has a slash at its end."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.key}"

    def is_under(self, folder: "Location") -> bool:
        return self.bucket == folder.bucket and self.key.startswith(folder.key)


def parse_object(uri: str, *, param: str) -> Location:
    """The object that `uri` names.  Raises InvalidValue."""
    location = _parse(uri, param)
    if not location.key or location.key.endswith("/"):
        raise InvalidValue(f"'{param}' names no object, but a folder.", param=param)
    return location


def parse_folder(uri: str, *, param: str) -> Location:
    """The folder that `uri` names, with or without a slash at its end; `s3://bucket` is all of it.

    Raises InvalidValue.
    """
    return _parse(uri.removesuffix("/") + "/", param)


def _parse(uri: str, param: str) -> Location:
    bucket, slash, key = uri.removeprefix(_SCHEME).partition("/")
    if not uri.startswith(_SCHEME) or not slash:
        raise InvalidValue(f"'{param}' must be like s3://bucket/key.", param=param)
    if not _BUCKET.fullmatch(bucket):
        raise InvalidValue(
            f"'{param}' must name a bucket of 3 to 63 lower-case letters, digits, dots and"
            " hyphens, like s3://bucket/key.",
            param=param,
        )
    if len(key.encode(errors="replace")) > _MAX_KEY or not key.isprintable():
        raise InvalidValue(
            f"'{param}' has a key that is over {_MAX_KEY} bytes or not printable.", param=param
        )
    if {"", ".", ".."} & set(key.removesuffix("/").split("/")) and key:
        raise InvalidValue(
            f"'{param}' has a key with '.', '..' or nothing between two slashes.", param=param
        )
    return Location(bucket, key)


def of_retry(output_prefix: str | None) -> str | None:
    """Where a retry's files go: with its parent's, unless that place is for one batch alone."""
    return output_prefix if output_prefix is not None and output_prefix.endswith("/") else None


def of_result(output_prefix: str, job_id: UUID, name: str) -> Location:
    """Where a batch's file `name` ("output" or "error") goes.

    A client's prefix is a folder, which may hold those of many batches.  A drop folder's is the
    dropped object's own name, which no two share.
    """
    own = f"batch_{job_id.hex}." if output_prefix.endswith("/") else ""
    bucket, _, key = output_prefix.removeprefix(_SCHEME).partition("/")
    return Location(bucket, f"{key}{own}{name}.jsonl")
