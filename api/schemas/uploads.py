"""The Upload object and its parts, and the bodies that make them."""

from typing import Annotated, Literal

from pydantic import Field

from api.schemas.files import FileObject
from api.schemas.given import Named, unix
from api.schemas.sent import Expiry, Purpose, Sent, Text
from jobs import ids
from jobs.models import Upload, UploadPart, UploadState
from jobs.uploads import MAX_PART_BYTES, MAX_PARTS


class UploadCreate(Sent):
    bytes: Annotated[int, Field(ge=0)]
    filename: Annotated[Text, Field(min_length=1)]
    mime_type: Text
    purpose: Purpose
    expires_after: Expiry | None = None


class PartLink(Sent):
    """Asks for a link to put a part to, instead of sending the part here."""

    bytes: Annotated[int, Field(ge=0, le=MAX_PART_BYTES)]


class UploadComplete(Sent):
    part_ids: Annotated[list[Text], Field(max_length=MAX_PARTS)]
    md5: Text | None = None


class UploadObject(Named):
    object: Literal["upload"] = "upload"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    status: UploadState
    file: FileObject | None

    @classmethod
    def of(cls, upload: Upload, *, file: FileObject | None = None) -> "UploadObject":
        return cls(
            id=ids.public(ids.UPLOAD, upload.id),
            bytes=upload.bytes,
            created_at=unix(upload.created_at),
            expires_at=unix(upload.expires_at),
            filename=upload.filename,
            purpose=upload.purpose,
            status=upload.state,
            file=file,
        )


class PartObject(Named):
    """`upload_url` is there if the part was asked for as a link: PUT its bytes to it."""

    object: Literal["upload.part"] = "upload.part"
    created_at: int
    upload_id: str
    upload_url: str | None

    @classmethod
    def of(cls, part: UploadPart, *, link: str | None = None) -> "PartObject":
        return cls(
            id=ids.public(ids.PART, part.id),
            created_at=unix(part.created_at),
            upload_id=ids.public(ids.UPLOAD, part.upload_id),
            upload_url=link,
        )
