"""`/v1/files`: upload, list, read, download, delete."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response, status
from fastapi.responses import RedirectResponse

from api import content, receiving
from api.answers import Once, OneAnswer
from api.bodies import is_json, read_body, refuse_encoded
from api.deps import AllServices, CurrentCaller, DbSession, after_id, row_id
from api.openapi import schema_of
from api.schemas.files import DeletedFile, FileByReference, FileObject
from api.schemas.given import ListOf
from api.schemas.sent import FileQuery
from api.services import Services
from api.upload_form import FILE_FIELDS
from jobs import files, ids, locations, quotas, tenants
from jobs.models import File
from jobs.paging import Cursor
from jobs.references import read_reference

router = APIRouter(prefix="/v1/files", tags=["files"])

_LINK_SECONDS = 300

_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}}},
    206: {"content": {"application/octet-stream": {}}, "description": "The range asked for"},
    302: {"description": "A link to S3"},
    304: {"description": "You have these bytes"},
}

_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        **{name: {"type": "string"} for name in sorted(FILE_FIELDS)},
                    },
                }
            },
            "application/json": {"schema": schema_of(FileByReference)},
        },
    }
}


@router.post("", response_model=FileObject, openapi_extra=_FORM)
async def upload_file(request: Request, once: OneAnswer, services: AllServices) -> Response:
    """Store a file, or register one that lies in S3 already: a JSON body with its `source`."""
    refuse_encoded(request)
    if is_json(request):
        reference = await read_body(FileByReference, request, services)
        work = partial(_refer, reference, services, once)
    else:
        work = partial(_store, request, services, once)
    answer = await services.uploads.run(once.caller.tenant_id, work)
    return Response(answer, media_type="application/json")


def _store(request: Request, services: Services, once: Once) -> str:
    storage, tenant_id = services.storage, once.caller.tenant_id
    with services.sessions.begin() as session:  # a full store need not be sent the file first
        quotas.admit_bytes(session, tenant_id=tenant_id, size=1)
    new = receiving.receive_file(request, storage, tenant_id=tenant_id, limits=services.limits)
    # The content stands in for the body, whose boundary differs each time it is sent.
    same = "\n".join((new.purpose, new.filename, new.sha256, str(new.expires_in)))
    added: list[File] = []

    def add() -> FileObject:
        added.append(files.add(session, new))
        return FileObject.of(added[0], storage=storage)

    # The row comes once all of the file is in S3.
    try:
        with services.sessions.begin() as session:
            return once.answer(session, add, body=same)
    finally:
        if not added:  # an earlier answer stands, or there is none: this object is nobody's
            files.discard(storage, new.storage_key)


def _refer(body: FileByReference, services: Services, once: Once) -> str:
    storage, tenant_id = services.storage, once.caller.tenant_id
    location = locations.parse_object(body.source, param="source")
    with services.sessions.begin() as session:
        tenants.check_allowed(
            session,
            tenant_id=tenant_id,
            location=location,
            own_bucket=storage.bucket,
            param="source",
        )
    new = read_reference(
        storage, location, tenant_id=tenant_id, max_bytes=services.limits.file_bytes
    )
    if body.expires_after is not None:
        new = replace(new, expires_in=timedelta(seconds=body.expires_after.seconds))
    with services.sessions.begin() as session:
        return once.answer(
            session,
            lambda: FileObject.of(files.add(session, new), storage=storage),
            body=body.model_dump_json(),
        )


@router.get("")
def list_files(
    caller: CurrentCaller,
    session: DbSession,
    services: AllServices,
    query: Annotated[FileQuery, Query()],
) -> ListOf[FileObject]:
    cursor = Cursor(
        limit=query.limit,
        after=after_id(ids.FILE, query.after),
        newest_first=query.order == "desc",
    )
    page = files.list_page(
        session, tenant_id=caller.tenant_id, purpose=query.purpose, cursor=cursor
    )
    items = [FileObject.of(file, storage=services.storage) for file in page.rows]
    return ListOf.page(items, has_more=page.has_more)


@router.get("/{file_id}")
def read_file(
    file_id: str, caller: CurrentCaller, session: DbSession, services: AllServices
) -> FileObject:
    file = files.get(session, tenant_id=caller.tenant_id, file_id=_id(file_id))
    return FileObject.of(file, storage=services.storage)


@router.delete("/{file_id}")
def delete_file(
    file_id: str,
    caller: CurrentCaller,
    session: DbSession,
    services: AllServices,
    background: BackgroundTasks,
) -> DeletedFile:
    file = files.delete(session, tenant_id=caller.tenant_id, file_id=_id(file_id))
    background.add_task(files.discard_deleted, services.storage, file)  # after the commit
    return DeletedFile(id=file_id)


@router.head("/{file_id}/content", include_in_schema=False)
@router.get("/{file_id}/content", response_class=Response, responses=_BYTES)
def read_content(
    file_id: str,
    request: Request,
    caller: CurrentCaller,
    services: AllServices,
    redirect: bool = False,
) -> Response:
    """The file's bytes.  `?redirect=true` answers with a link to S3 that is good for 5 minutes."""
    with services.sessions.begin() as session:  # and not a moment longer: S3 may be slow
        file = files.get(session, tenant_id=caller.tenant_id, file_id=_id(file_id))
    if redirect:
        bucket = services.storage.within(file.bucket)
        link = bucket.presign(file.storage_key, etag=file.etag, expires_in=_LINK_SECONDS)
        return RedirectResponse(link, status_code=status.HTTP_302_FOUND)
    return content.answer(request, services.storage, file)


def _id(name: str) -> UUID:
    return row_id(ids.FILE, name, param="file_id")
