"""Drop folders: which there are, and which versions of which of their objects have become batches.

An object's row, its file and its batch are made in one transaction, and the row's key is the
object's and its ETag: so each version becomes one batch, whoever sees it first and dies on the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs import fairness, files, intake, quotas, windows
from jobs.errors import InvalidValue
from jobs.files import NewFile
from jobs.intake import NewBatch
from jobs.locations import Location
from jobs.models import Drop, DropObject, JobState
from jobs.quotas import Load
from jobs.storage import StoredObject

INPUT = ".jsonl"
RESULTS = (".output.jsonl", ".error.jsonl")


@dataclass(frozen=True, slots=True)
class EndedObject:
    """A dropped object whose batch has ended.  `newest`, `first`: no version of it was dropped
    later, or earlier.  `written`: those of "output" and "error" that lie beside it by its batch."""

    location: Location
    job_id: UUID
    state: JobState
    errors: list[dict[str, Any]]
    newest: bool
    first: bool
    written: frozenset[str]


def stem(location: Location) -> str:
    """What the addresses of an object's results begin with."""
    return str(location).removesuffix(INPUT.removeprefix("."))


def is_input(key: str) -> bool:
    """Not of a name that Postgres cannot hold: no folder may keep the others from being read."""
    return key.endswith(INPUT) and not key.endswith(RESULTS) and "\x00" not in key


_OVERLAPS = text("""
    SELECT 1 FROM drops
     WHERE bucket = :bucket AND ended_at IS NULL
       AND (starts_with(prefix, :prefix) OR starts_with(:prefix, prefix))
       AND (tenant_id, prefix) <> (:tenant_id, :prefix)
     LIMIT 1
""")


def put(session: Session, *, tenant_id: UUID, folder: Location, endpoint: str, window: str) -> None:
    """Watch `folder` for this tenant from now on, or change what its objects run as.

    Raises InvalidValue if another watched folder is in it, or it in another: whose would they be?
    """
    place = {"tenant_id": tenant_id, "bucket": folder.bucket, "prefix": folder.key}
    if session.execute(_OVERLAPS, place).first() is not None:
        raise InvalidValue(f"{folder} overlaps with another drop folder.", param="prefix")
    runs_as = {"endpoint": endpoint, "completion_window": window}
    session.execute(
        insert(Drop)
        .values(**place, **runs_as)
        .on_conflict_do_update(index_elements=list(place), set_={**runs_as, "ended_at": None})
    )


def end(session: Session, *, tenant_id: UUID, folder: Location) -> bool:
    """Watch it no more.  What it has become goes on.  False if it was not watched."""
    ended = (
        update(Drop)
        .where(Drop.tenant_id == tenant_id, Drop.bucket == folder.bucket)
        .where(Drop.prefix == folder.key, Drop.ended_at.is_(None))
        .values(ended_at=func.now())
        .returning(Drop.id)
    )
    return session.scalar(ended) is not None


def watched(session: Session, *, tenant_id: UUID | None = None) -> Sequence[Drop]:
    """All drop folders, or one tenant's."""
    query = select(Drop).where(Drop.ended_at.is_(None)).order_by(Drop.created_at, Drop.id)
    if tenant_id is not None:
        query = query.where(Drop.tenant_id == tenant_id)
    return session.scalars(query.limit(1000)).all()


_KNOWN = text("""
    SELECT o.key, o.etag FROM drop_objects o
      JOIN unnest(CAST(:keys AS text[]), CAST(:etags AS text[])) AS seen (key, etag)
           ON seen.key = o.key AND seen.etag = o.etag
     WHERE o.drop_id = :drop_id
""")


def unknown(session: Session, drop: Drop, seen: Sequence[StoredObject]) -> list[StoredObject]:
    """Those of a page of objects that have not become batches yet."""
    values = {
        "drop_id": drop.id,
        "keys": [found.key for found in seen],
        "etags": [found.etag for found in seen],
    }
    known = {(row.key, row.etag) for row in session.execute(_KNOWN, values)}
    return [found for found in seen if (found.key, found.etag) not in known]


def check_room(session: Session, drop: Drop, found: StoredObject) -> None:
    """Raises QuotaExceeded where an object could not be taken: it need not be read to know that."""
    least = Load(requests=1, tokens=fairness.cost_of(found.size, 0), batches=1)
    quotas.admit(session, tenant_id=drop.tenant_id, adds=least)


# Of two that take it at once, the second waits here for the first to commit, and gets no row.
_TAKE = text("""
    INSERT INTO drop_objects (drop_id, key, etag)
    SELECT id, :key, :etag FROM drops WHERE id = :drop_id AND ended_at IS NULL
        ON CONFLICT DO NOTHING
    RETURNING 1
""")


# An earlier version that still runs keeps its results here, or they might lie beside the newer.
_SUPERSEDE = text("""
    UPDATE jobs j SET output_prefix = NULL
      FROM drop_objects o
     WHERE o.drop_id = :drop_id AND o.key = :key AND o.job_id = j.id AND j.finished_at IS NULL
""")


def take(session: Session, drop: Drop, new: NewFile) -> bool:
    """Make a batch of an object.  False if somebody has, or the folder is watched no more."""
    name = {"drop_id": drop.id, "key": new.storage_key, "etag": new.etag}
    if session.execute(_TAKE, name).first() is None:
        return False
    session.execute(_SUPERSEDE, {"drop_id": drop.id, "key": new.storage_key})  # jobs before tenants
    file = files.add(session, new)
    batch = NewBatch(
        endpoint=drop.endpoint,
        input_file_id=file.id,
        completion_window=drop.completion_window,
        expires_in=windows.parse(drop.completion_window),
        output_prefix=stem(Location(drop.bucket, new.storage_key)),
    )
    job = intake.create_batch(session, tenant_id=drop.tenant_id, new=batch)
    session.execute(update(DropObject).filter_by(**name).values(job_id=job.id))
    return True


# Of each folder, so that one whose bucket cannot be written hides no other's.
_ENDED = text("""
    SELECT d.bucket, e.key, e.job_id, e.state, coalesce(e.errors, '[]') AS errors,
           NOT EXISTS (SELECT 1 FROM drop_objects v
                        WHERE v.drop_id = d.id AND v.key = e.key
                          AND v.created_at > e.created_at) AS newest,
           NOT EXISTS (SELECT 1 FROM drop_objects v
                        WHERE v.drop_id = d.id AND v.key = e.key
                          AND v.created_at < e.created_at) AS first,
           ARRAY (SELECT CASE f.id WHEN e.output_file_id THEN 'output' ELSE 'error' END
                    FROM files f
                   WHERE f.id IN (e.output_file_id, e.error_file_id) AND f.bucket = d.bucket)
           AS written
      FROM (SELECT o.drop_id, o.key, o.created_at, o.job_id, j.state, j.errors, j.output_file_id,
                   j.error_file_id, row_number() OVER (PARTITION BY o.drop_id) AS place
              FROM drop_objects o JOIN jobs j ON j.id = o.job_id
             WHERE o.settled_at IS NULL AND j.finished_at IS NOT NULL) e
      JOIN drops d ON d.id = e.drop_id
     WHERE e.place <= :limit
""")


def ended(session: Session, *, limit: int) -> list[EndedObject]:
    """Objects whose batch has ended, until they are settled: so many of each folder."""
    return [
        EndedObject(
            Location(row.bucket, row.key),
            row.job_id,
            JobState(row.state),
            row.errors,
            row.newest,
            row.first,
            frozenset(row.written),
        )
        for row in session.execute(_ENDED, {"limit": limit})
    ]


def settle(session: Session, job_id: UUID) -> None:
    """All that was to be said of an object's end has been said."""
    settled = update(DropObject).where(DropObject.job_id == job_id)
    session.execute(settled.values(settled_at=func.now()))
