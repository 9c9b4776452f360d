"""The File object."""

from typing import Literal

from api.schemas.given import Given, Named, unix, unix_or_none
from api.schemas.sent import Expiry, Sent, Text
from jobs import ids
from jobs.models import File
from jobs.storage import Storage


class FileByReference(Sent):
    """A file that lies in S3 already, and stays there.  `source` is like s3://bucket/key."""

    source: Text
    purpose: Literal["batch"]
    expires_after: Expiry | None = None


class FileObject(Named):
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"  # there is no row before all of it is stored
    status_details: None = None
    sha256: str
    lines: int
    s3_uri: str

    @classmethod
    def of(cls, file: File, *, storage: Storage) -> "FileObject":
        return cls(
            id=ids.public(ids.FILE, file.id),
            bytes=file.bytes,
            created_at=unix(file.created_at),
            expires_at=unix_or_none(file.expires_at),
            filename=file.filename,
            purpose=file.purpose,
            sha256=file.sha256,
            lines=file.lines,
            s3_uri=storage.within(file.bucket).uri(file.storage_key),
        )


class DeletedFile(Given):
    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True
