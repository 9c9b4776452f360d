"""Files that stay where they are, in a bucket of their tenant's, and are pinned by their ETag."""

from uuid import UUID, uuid4

from jobs.errors import NotFound, TooLarge
from jobs.file_check import FileCheck
from jobs.files import NewFile, clean_filename
from jobs.locations import Location
from jobs.storage import Storage

MAX_BYTES = 2**30  # of a file in a drop folder


def read_reference(
    storage: Storage, location: Location, *, tenant_id: UUID, max_bytes: int | None = None
) -> NewFile:
    """What there is to know of an object, all of it read once; its text is judged when it runs.

    Raises NotFound, TooLarge, and FileChanged if it is written meanwhile.
    """
    bucket = storage.within(location.bucket)
    found = bucket.find(location.key)
    if found is None:
        raise NotFound(f"There is no object at {location} that we may read.", param="source")
    if max_bytes is not None and found.size > max_bytes:
        raise TooLarge(f"{location} has over {max_bytes:,} bytes. Split it.", param="source")
    check = FileCheck(max_bytes=found.size, text=False, param="source")
    for _ in check.passing(bucket.stream(location.key, etag=found.etag)):
        pass
    return NewFile(
        id=uuid4(),
        tenant_id=tenant_id,
        filename=clean_filename(location.key),
        purpose="batch",
        bytes=check.size,
        sha256=check.sha256,
        lines=check.lines,
        storage_key=location.key,
        bucket=location.bucket,
        etag=found.etag,
    )
