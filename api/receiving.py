"""Takes a file, or a part of one, from its client to S3, chunk by chunk, and says what it was.

Runs on a thread and pulls: each chunk is parsed, checked and put into the part that is being
filled before the next is asked for, so a slow S3 slows the client and no memory fills.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import anyio.from_thread
from fastapi import Request

from api.bodies import chunks
from api.schemas.sent import MAX_EXPIRY, MIN_EXPIRY
from api.settings import LimitSettings
from api.upload_form import UploadForm
from jobs import files, uploads
from jobs.errors import InvalidValue, MissingParameter, TooLarge
from jobs.file_check import FileCheck
from jobs.files import NewFile
from jobs.models import Upload
from jobs.storage import Storage
from jobs.uploads import NewPart

# Of a body beyond its file: boundaries, headers, fields.
_FORM_BYTES = 64 * 1024

_SECONDS = re.compile("[0-9]{1,9}")

# What the event loop gathers before it wakes the upload's thread: waking it costs more than 64 kB.
_CHUNK_BYTES = 2**20


def receive_file(
    request: Request, storage: Storage, *, tenant_id: UUID, limits: LimitSettings
) -> NewFile:
    """Store the file of a multipart body.  Whatever is refused leaves no object behind.

    Call on a thread of the event loop's pool.
    """
    form = UploadForm(request.headers.get("content-type", ""))
    check = FileCheck(max_bytes=limits.file_bytes)
    file_id = uuid4()
    key = files.storage_key(tenant_id, file_id)
    body = _body(request, limit=limits.file_bytes + _FORM_BYTES, silence=limits.upload_silence)
    storage.upload(key, check.passing(form.file_chunks(body)))
    try:
        purpose, expires_in = _purpose(form.fields), _expires_in(form.fields)
    except (InvalidValue, MissingParameter):
        files.discard(storage, key)  # the fields may come behind the file
        raise
    return NewFile(
        id=file_id,
        tenant_id=tenant_id,
        filename=form.filename or "",
        purpose=purpose,
        bytes=check.size,
        sha256=check.sha256,
        lines=check.lines,
        storage_key=key,
        expires_in=expires_in,
    )


def receive_part(
    request: Request, storage: Storage, upload: Upload, *, silence: timedelta
) -> tuple[NewPart, str]:
    """Store one part of an upload; also returns its sha256.

    Call on a thread of the event loop's pool.
    """
    content_type = request.headers.get("content-type", "")
    form = UploadForm(content_type, file="data", fields=frozenset())
    check = FileCheck(max_bytes=uploads.MAX_PART_BYTES, text=False, param="data")
    new = uploads.new_part(upload)
    body = _body(request, limit=uploads.MAX_PART_BYTES + _FORM_BYTES, silence=silence)
    storage.upload(new.storage_key, check.passing(form.file_chunks(body)))
    return replace(new, bytes=check.size), check.sha256


def _body(request: Request, *, limit: int, silence: timedelta) -> Iterator[bytes]:
    stream, size = chunks(request, silence=silence), 0
    while chunk := anyio.from_thread.run(_next_chunk, stream):
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"The body has over {limit:,} bytes. Split the file.", param="file")
        yield chunk


async def _next_chunk(stream: AsyncIterator[bytes]) -> bytes:
    """About a megabyte, or what is left: at the end nothing."""
    gathered = bytearray()
    async for chunk in stream:
        gathered += chunk
        if len(gathered) >= _CHUNK_BYTES:
            break
    return bytes(gathered)


def _purpose(fields: dict[str, str]) -> str:
    purpose = fields.get("purpose")
    if purpose is None:
        raise MissingParameter(
            "'purpose' is missing; for a batch's input it is 'batch'.", param="purpose"
        )
    if purpose not in files.UPLOAD_PURPOSES:
        raise InvalidValue(
            f"'purpose' must be one of {', '.join(files.UPLOAD_PURPOSES)}.", param="purpose"
        )
    return purpose


def _expires_in(fields: dict[str, str]) -> timedelta | None:
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise InvalidValue("'expires_after[anchor]' must be 'created_at'.", param="expires_after")
    digits = seconds or ""
    if not (_SECONDS.fullmatch(digits) and MIN_EXPIRY <= int(digits) <= MAX_EXPIRY):
        raise InvalidValue(
            f"'expires_after[seconds]' must be a whole number from {MIN_EXPIRY} to {MAX_EXPIRY}.",
            param="expires_after",
        )
    return timedelta(seconds=int(digits))
