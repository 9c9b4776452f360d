"""`/v1/uploads`: a large file in parts, through the API or straight to S3."""

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from api import composing, receiving
from api.answers import Once, OneAnswer
from api.bodies import body_of, documented, is_json, read_body, refuse_encoded
from api.deps import AllServices, CurrentCaller, DbSession, row_id
from api.openapi import schema_of
from api.schemas.files import FileObject
from api.schemas.uploads import PartLink, PartObject, UploadComplete, UploadCreate, UploadObject
from api.services import Services
from jobs import files, ids, uploads
from jobs.errors import TooLarge
from jobs.models import File, Upload, UploadPart
from jobs.uploads import NewUpload

router = APIRouter(prefix="/v1/uploads", tags=["uploads"])

_PART: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["data"],
                    "properties": {"data": {"type": "string", "format": "binary"}},
                }
            },
            "application/json": {"schema": schema_of(PartLink)},
        },
    }
}


@router.post("", response_model=UploadObject, openapi_extra=documented(UploadCreate))
def create_upload(
    body: Annotated[UploadCreate, Depends(body_of(UploadCreate))],
    session: DbSession,
    once: OneAnswer,
    services: AllServices,
) -> Response:
    """Begin a file that comes in parts.  It takes them for an hour."""
    if body.bytes > services.limits.file_bytes:
        limit = services.limits.file_bytes
        raise TooLarge(f"A file has at most {limit:,} bytes. Split it.", param="bytes")
    expiry = body.expires_after
    new = NewUpload(
        filename=files.clean_filename(body.filename),
        purpose=body.purpose,
        bytes=body.bytes,
        file_expires_after=None if expiry is None else expiry.seconds,
    )

    def make() -> UploadObject:
        return UploadObject.of(uploads.create(session, tenant_id=once.caller.tenant_id, new=new))

    answer = once.answer(session, make, body=body.model_dump_json())
    return Response(answer, media_type="application/json")


@router.get("/{upload_id}")
def read_upload(
    upload_id: str, caller: CurrentCaller, session: DbSession, services: AllServices
) -> UploadObject:
    upload = uploads.get(session, tenant_id=caller.tenant_id, upload_id=_id(upload_id))
    file = None if upload.file_id is None else session.get_one(File, upload.file_id)
    return _object(services, upload, file)


@router.post("/{upload_id}/parts", response_model=PartObject, openapi_extra=_PART)
async def add_part(
    upload_id: str, request: Request, once: OneAnswer, services: AllServices
) -> Response:
    """Add a part of at most 64 MiB.  Parts may come in any order, and several at once.

    A JSON body `{"bytes": n}` is answered with an `upload_url` to PUT the part to instead.
    """
    refuse_encoded(request)
    if is_json(request):
        link = await read_body(PartLink, request, services)
        work = partial(_add_link, services, once, _id(upload_id), link)
    else:
        work = partial(_add_sent, services, once, _id(upload_id), request)
    answer = await services.uploads.run(once.caller.tenant_id, work)
    return Response(answer, media_type="application/json")


def _add_link(services: Services, once: Once, upload_id: UUID, link: PartLink) -> str:
    tenant_id = once.caller.tenant_id

    def add() -> PartObject:
        upload = uploads.get_pending(session, tenant_id=tenant_id, upload_id=upload_id)
        new = uploads.new_part(upload, size=link.bytes, presigned=True)
        part = uploads.add_part(session, tenant_id=tenant_id, new=new)
        seconds = uploads.seconds_left(session, upload)
        url = services.storage.presign_put(new.storage_key, size=link.bytes, expires_in=seconds)
        return PartObject.of(part, link=url)

    with services.sessions.begin() as session:
        return once.answer(session, add, body=link.model_dump_json())


def _add_sent(services: Services, once: Once, upload_id: UUID, request: Request) -> str:
    storage, tenant_id = services.storage, once.caller.tenant_id
    with services.sessions.begin() as session:
        upload = uploads.get_pending(session, tenant_id=tenant_id, upload_id=upload_id)
    silence = services.limits.upload_silence
    new, sha256 = receiving.receive_part(request, storage, upload, silence=silence)
    added: list[UploadPart] = []

    def add() -> PartObject:
        added.append(uploads.add_part(session, tenant_id=tenant_id, new=new))
        return PartObject.of(added[0])

    try:
        with services.sessions.begin() as session:
            return once.answer(session, add, body=sha256)
    finally:
        if not added:
            files.discard(storage, new.storage_key)


@router.post("/{upload_id}/complete", openapi_extra=documented(UploadComplete))
async def complete_upload(
    upload_id: str,
    body: Annotated[UploadComplete, Depends(body_of(UploadComplete))],
    caller: CurrentCaller,
    services: AllServices,
) -> UploadObject:
    """Make a file of the parts, in the order of `part_ids`.

    The same parts completed again give the same file; so this needs no Idempotency-Key.
    """
    work = partial(_complete, services, caller.tenant_id, _id(upload_id), body)
    return await services.uploads.run(caller.tenant_id, work)


def _complete(
    services: Services, tenant_id: UUID, upload_id: UUID, body: UploadComplete
) -> UploadObject:
    part_ids = [row_id(ids.PART, name, param="part_ids") for name in body.part_ids]
    name = {"tenant_id": tenant_id, "upload_id": upload_id}
    with services.sessions.begin() as session:
        done = uploads.completed(session, **name, part_ids=part_ids)
        if done is not None:
            return _object(services, *done)
        upload = uploads.get_pending(session, **name)
        parts = uploads.parts_in_order(session, upload, part_ids)
    new = composing.compose(services.storage, upload, parts, md5=body.md5)
    kept = False
    try:
        with services.sessions.begin() as session:
            ended, file = uploads.finish(session, **name, part_ids=part_ids, new=new)
            kept = file.id == new.id
            return _object(services, ended, file)
    finally:
        if not kept:
            files.discard(services.storage, new.storage_key)


@router.post("/{upload_id}/cancel")
def cancel_upload(upload_id: str, caller: CurrentCaller, session: DbSession) -> UploadObject:
    """End an upload without a file.  Its parts are deleted."""
    upload = uploads.cancel(session, tenant_id=caller.tenant_id, upload_id=_id(upload_id))
    return UploadObject.of(upload)


def _object(services: Services, upload: Upload, file: File | None) -> UploadObject:
    shown = None if file is None else FileObject.of(file, storage=services.storage)
    return UploadObject.of(upload, file=shown)


def _id(name: str) -> UUID:
    return row_id(ids.UPLOAD, name, param="upload_id")
