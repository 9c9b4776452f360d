"""A segment's object in S3, held against what the database says of it before any of it is used.

A store may lose an object or its end, or change a byte.  Segments are read one after another, so
that of a short one the next one's lines would be taken for its own.
"""

import hashlib
from dataclasses import dataclass

from jobs.errors import ObjectMissing, SegmentDamaged
from jobs.storage import Storage


@dataclass(frozen=True, slots=True)
class SegmentObject:
    storage_key: str
    bytes: int
    sha256: str


def read_whole(storage: Storage, segment: SegmentObject) -> bytes:
    """All of a segment.  Raises SegmentDamaged if it is not what was written, or not there."""
    try:
        content = storage.read(segment.storage_key)
    except ObjectMissing as missing:
        raise SegmentDamaged(f"{segment.storage_key}: {missing}") from missing
    if len(content) != segment.bytes:
        raise SegmentDamaged(f"{segment.storage_key}: {len(content)} bytes of {segment.bytes}")
    if hashlib.sha256(content).hexdigest() != segment.sha256:
        raise SegmentDamaged(f"{segment.storage_key}: its bytes are not those that were written")
    return content


def read_line(storage: Storage, segment: SegmentObject, *, start: int, length: int) -> bytes:
    """One line of a segment that holds little more.  Raises SegmentDamaged."""
    return checked_line(read_whole(storage, segment)[start : start + length], length)


def checked_line(line: bytes, length: int) -> bytes:
    """What was found where a row's line lies: one line of `length` bytes, its line feed the last.

    Raises SegmentDamaged.
    """
    if not line or line.find(b"\n") + 1 != length:
        raise SegmentDamaged(f"no line of {length} bytes lies where a result row says")
    return line
