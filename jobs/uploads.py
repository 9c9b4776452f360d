"""Files that arrive in parts: their rows.  A part is an object of ours; its row follows it.

Parts come in any order and side by side, from the client through the API or straight to S3 by a
link; `complete` says which of them make the file, and in which order.  Who composes the file does
so outside of any transaction, and `finish` lets one of them win.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import func, insert, select, text, update
from sqlalchemy.orm import Session

from jobs import files, quotas
from jobs.errors import InvalidValue, NotAllowedNow, NotFound
from jobs.files import NewFile
from jobs.models import File, Upload, UploadPart, UploadState

LASTS = timedelta(hours=1)
MAX_PART_BYTES = 64 * 2**20
MAX_PARTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUpload:
    filename: str
    purpose: str
    bytes: int
    file_expires_after: int | None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPart:
    id: UUID
    upload_id: UUID
    bytes: int
    presigned: bool
    storage_key: str


def create(session: Session, *, tenant_id: UUID, new: NewUpload) -> Upload:
    """Begin an upload.  Raises OverQuota if its file could not be kept."""
    quotas.admit_bytes(session, tenant_id=tenant_id, size=new.bytes)
    return session.scalars(
        insert(Upload)
        .values(
            tenant_id=tenant_id,
            filename=new.filename,
            purpose=new.purpose,
            bytes=new.bytes,
            file_expires_after=new.file_expires_after,
            expires_at=func.now() + LASTS,
        )
        .returning(Upload)
    ).one()


# Whoever looks first after its time is over expires it.
_EXPIRE = text("""
    UPDATE uploads SET state = 'expired'
     WHERE id = :id AND state = 'pending' AND expires_at <= now()
""")


def get(session: Session, *, tenant_id: UUID, upload_id: UUID) -> Upload:
    session.execute(_EXPIRE, {"id": upload_id})
    query = select(Upload).where(Upload.tenant_id == tenant_id, Upload.id == upload_id)
    upload = session.scalar(query.with_for_update())
    if upload is None:
        raise NotFound("There is no upload with this id.", param="upload_id")
    return upload


def get_pending(session: Session, *, tenant_id: UUID, upload_id: UUID) -> Upload:
    """Like `get`; raises NotAllowedNow if the upload takes no parts any more."""
    upload = get(session, tenant_id=tenant_id, upload_id=upload_id)
    if upload.state is not UploadState.PENDING:
        raise NotAllowedNow(
            f"This upload is {upload.state}. Begin another with POST /v1/uploads.",
            param="upload_id",
        )
    return upload


def seconds_left(session: Session, upload: Upload) -> int:
    """How long the upload may still be added to."""
    left = select(func.extract("epoch", Upload.expires_at - func.now())).where(
        Upload.id == upload.id
    )
    return max(1, int(session.scalars(left).one()))


def new_part(upload: Upload, *, size: int = 0, presigned: bool = False) -> NewPart:
    part_id = uuid4()
    key = f"t/{upload.tenant_id.hex}/uploads/{upload.id.hex}/{part_id.hex}"
    return NewPart(
        id=part_id, upload_id=upload.id, bytes=size, presigned=presigned, storage_key=key
    )


def add_part(session: Session, *, tenant_id: UUID, new: NewPart) -> UploadPart:
    """Raises NotAllowedNow if the upload has ended meanwhile, or has too many parts; OverQuota."""
    get_pending(session, tenant_id=tenant_id, upload_id=new.upload_id)
    quotas.admit_bytes(session, tenant_id=tenant_id, size=new.bytes)
    there = select(func.count()).where(UploadPart.upload_id == new.upload_id)
    if session.scalars(there).one() >= MAX_PARTS:
        raise NotAllowedNow(f"An upload has at most {MAX_PARTS:,} parts; send larger ones.")
    row = insert(UploadPart).values(
        id=new.id,
        upload_id=new.upload_id,
        bytes=new.bytes,
        presigned=new.presigned,
        storage_key=new.storage_key,
    )
    return session.scalars(row.returning(UploadPart)).one()


def parts_in_order(session: Session, upload: Upload, part_ids: Sequence[UUID]) -> list[UploadPart]:
    """The named parts.  Raises InvalidValue if one is unknown or named twice."""
    query = select(UploadPart).where(UploadPart.upload_id == upload.id)
    known = {part.id: part for part in session.scalars(query)}
    if len(set(part_ids)) != len(part_ids):
        raise InvalidValue("A part is named twice.", param="part_ids")
    if not known.keys() >= set(part_ids):
        raise InvalidValue("A part is named that this upload does not have.", param="part_ids")
    return [known[part_id] for part_id in part_ids]


def finish(
    session: Session, *, tenant_id: UUID, upload_id: UUID, part_ids: Sequence[UUID], new: NewFile
) -> tuple[Upload, File]:
    """Make the composed file the upload's.

    If the same parts were completed meanwhile, that file stands and `new` is nobody's.
    Raises NotAllowedNow if the upload has ended in another way.
    """
    done = completed(session, tenant_id=tenant_id, upload_id=upload_id, part_ids=part_ids)
    if done is not None:
        return done
    get_pending(session, tenant_id=tenant_id, upload_id=upload_id)
    file = files.add(session, new, composed_from=upload_id)
    ended = update(Upload).where(Upload.id == upload_id)
    ended = ended.values(state=UploadState.COMPLETED, file_id=file.id, part_ids=list(part_ids))
    return session.scalars(ended.returning(Upload)).one(), file


def completed(
    session: Session, *, tenant_id: UUID, upload_id: UUID, part_ids: Sequence[UUID]
) -> tuple[Upload, File] | None:
    """The upload and its file, if just these parts have been completed already."""
    upload = get(session, tenant_id=tenant_id, upload_id=upload_id)
    if upload.file_id is None or upload.part_ids != list(part_ids):
        return None
    return upload, session.get_one(File, upload.file_id)


def cancel(session: Session, *, tenant_id: UUID, upload_id: UUID) -> Upload:
    """End an upload; its parts are collected.  A second cancel changes nothing."""
    upload = get(session, tenant_id=tenant_id, upload_id=upload_id)
    if upload.state is not UploadState.CANCELLED:
        upload = get_pending(session, tenant_id=tenant_id, upload_id=upload_id)
        upload.state = UploadState.CANCELLED
        session.flush()
    return upload
