"""The files of a tenant: their rows.  Their bytes lie in S3 under keys that we make."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, insert, or_, select, update
from sqlalchemy.orm import Session

from jobs import paging, quotas
from jobs.errors import NotAllowedNow, NotFound, StorageUnavailable
from jobs.models import TERMINAL_STATES, File, Job
from jobs.paging import Cursor, Page
from jobs.storage import Storage

_MAX_FILENAME = 255

log = logging.getLogger(__name__)

BATCH = "batch"
BATCH_OUTPUT = "batch_output"  # only we write these

# What a client may upload a file for; the names are OpenAI's, and we use the first.
UPLOAD_PURPOSES = (BATCH, "assistants", "evals", "fine-tune", "user_data", "vision")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """What is known of an object once all of it is in S3."""

    id: UUID
    tenant_id: UUID
    filename: str
    purpose: str
    bytes: int
    sha256: str
    lines: int
    storage_key: str
    bucket: str | None = None  # a tenant's, and then
    etag: str | None = None
    expires_in: timedelta | None = None


def storage_key(tenant_id: UUID, file_id: UUID) -> str:
    """Never the client's file name: that is metadata."""
    return f"t/{tenant_id.hex}/files/{file_id.hex}"


def clean_filename(name: str) -> str:
    """A client's name for its file as metadata: no folders, nothing unprintable, not too long."""
    last = PurePosixPath(name.replace("\\", "/")).name
    printable = "".join(char for char in last if char.isprintable())
    return printable[-_MAX_FILENAME:] or "upload.jsonl"


def stream(
    storage: Storage, file: File, *, start: int = 0, end: int | None = None
) -> Iterator[bytes]:
    """The bytes [start, end).  Raises FileChanged if they are not those of the file any more."""
    bucket = storage.within(file.bucket)
    return bucket.stream(file.storage_key, start=start, end=end, etag=file.etag)


def add(session: Session, new: NewFile, *, composed_from: UUID | None = None) -> File:
    """Make an object in S3 a file.  Raises OverQuota.

    `composed_from` is the upload whose parts it replaces.
    """
    if new.bucket is None:
        quotas.admit_bytes(
            session, tenant_id=new.tenant_id, size=new.bytes, composed_from=composed_from
        )
    expires_at = None if new.expires_in is None else func.now() + new.expires_in
    row = insert(File).values(
        id=new.id,
        tenant_id=new.tenant_id,
        filename=new.filename,
        purpose=new.purpose,
        bytes=new.bytes,
        sha256=new.sha256,
        lines=new.lines,
        storage_key=new.storage_key,
        bucket=new.bucket,
        etag=new.etag,
        expires_at=expires_at,
    )
    return session.scalars(row.returning(File)).one()


def get(session: Session, *, tenant_id: UUID, file_id: UUID) -> File:
    return _found(session.scalar(_one(tenant_id, file_id)))


def get_for_use(session: Session, *, tenant_id: UUID, file_id: UUID) -> File:
    """Like `get`, and the file cannot be deleted before this transaction ends."""
    query = _one(tenant_id, file_id).with_for_update(read=True)
    return _found(session.scalar(query), param="input_file_id")


def list_page(
    session: Session, *, tenant_id: UUID, purpose: str | None, cursor: Cursor
) -> Page[File]:
    shown = _present()
    if purpose is not None:
        shown.append(File.purpose == purpose)
    return paging.fetch(session, File, cursor, owned=[File.tenant_id == tenant_id], shown=shown)


def delete(session: Session, *, tenant_id: UUID, file_id: UUID) -> File:
    """Mark the file deleted.  After the commit, `discard_deleted` its object.

    Raises NotAllowedNow while a batch still reads it.
    """
    file = _found(session.scalar(_one(tenant_id, file_id).with_for_update()))
    reader = session.scalar(
        select(Job.id)
        .where(Job.tenant_id == tenant_id, Job.input_file_id == file_id)
        .where(Job.state.not_in(TERMINAL_STATES))
        .limit(1)
    )
    if reader is not None:
        raise NotAllowedNow(
            f"batch_{reader.hex} still reads this file. Cancel it or let it end, then delete.",
            param="file_id",
        )
    session.execute(update(File).where(File.id == file.id).values(deleted_at=func.now()))
    return file


def discard_deleted(storage: Storage, file: File) -> None:
    """Delete a deleted file's object at once, unless it lies in a bucket of its tenant's."""
    if file.bucket is None:
        discard(storage, file.storage_key)


def discard(storage: Storage, key: str) -> None:
    """Delete an object that no row names.  If that fails it costs space, and nobody's request."""
    try:
        storage.delete([key])
    except StorageUnavailable:
        log.warning("an object is left behind: S3 does not answer", extra={"key": key})


def _one(tenant_id: UUID, file_id: UUID) -> Select[File]:
    return select(File).where(File.tenant_id == tenant_id, File.id == file_id, *_present())


def _present() -> list[ColumnElement[bool]]:
    unexpired = or_(File.expires_at.is_(None), File.expires_at > func.now())
    return [File.deleted_at.is_(None), unexpired]


def _found(file: File | None, *, param: str = "file_id") -> File:
    if file is None:
        raise NotFound("There is no file with this id; it may be deleted or expired.", param=param)
    return file
