"""Makes one file of an upload's parts: reads them in order, checks, writes them as one object.

Not S3's own composition, which needs parts of 5 MiB numbered in advance, and would make a file
whose text, lines and hash nobody has seen.  Memory holds one part of a multipart upload.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from uuid import uuid4

from jobs import files, ids
from jobs.errors import InvalidValue
from jobs.file_check import FileCheck
from jobs.files import NewFile
from jobs.models import Upload, UploadPart
from jobs.storage import Storage


def compose(
    storage: Storage, upload: Upload, parts: Sequence[UploadPart], *, md5: str | None
) -> NewFile:
    """Write the file.  Whatever is refused leaves no object behind."""
    _check_sizes(upload, parts)
    for part in parts:
        if part.presigned:
            _check_arrived(storage, part)
    file_id = uuid4()
    key = files.storage_key(upload.tenant_id, file_id)
    check, digest = FileCheck(max_bytes=upload.bytes), hashlib.md5(usedforsecurity=False)
    storage.upload(key, check.passing(_chunks(storage, parts, digest)))
    try:
        _check_content(upload, check, digest.hexdigest(), md5)
    except InvalidValue:
        files.discard(storage, key)
        raise
    expires_after = upload.file_expires_after
    return NewFile(
        id=file_id,
        tenant_id=upload.tenant_id,
        filename=upload.filename,
        purpose=upload.purpose,
        bytes=check.size,
        sha256=check.sha256,
        lines=check.lines,
        storage_key=key,
        expires_in=None if expires_after is None else timedelta(seconds=expires_after),
    )


def _check_sizes(upload: Upload, parts: Sequence[UploadPart]) -> None:
    size = sum(part.bytes for part in parts)
    if size != upload.bytes:
        raise InvalidValue(
            f"The parts have {size:,} bytes, the upload was to have {upload.bytes:,}.",
            param="part_ids",
        )


def _check_arrived(storage: Storage, part: UploadPart) -> None:
    found, name = storage.find(part.storage_key), ids.public(ids.PART, part.id)
    if found is None:
        raise InvalidValue(f"{name} has not been put to its upload_url yet.", param="part_ids")
    if found.size != part.bytes:
        raise InvalidValue(
            f"{name} has {found.size:,} bytes, it was to have {part.bytes:,}.", param="part_ids"
        )


def _chunks(
    storage: Storage, parts: Sequence[UploadPart], digest: "hashlib._Hash"
) -> Iterator[bytes]:
    for part in parts:
        for chunk in storage.stream(part.storage_key):
            digest.update(chunk)
            yield chunk


def _check_content(upload: Upload, check: FileCheck, found: str, md5: str | None) -> None:
    if check.size != upload.bytes:
        raise InvalidValue("A part was changed while it was read.", param="part_ids")
    if md5 is not None and md5.lower() != found:
        raise InvalidValue(f"The file's md5 is {found}, not {md5[:80]!a}.", param="md5")
