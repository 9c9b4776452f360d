"""A shard's input object in S3, held against what planning wrote before any line of it is run.

A store may lose an object or its end, or change a byte: its rows would be answered by what nobody
asked, or the worker that reads it would fail, and the next one.
"""

import hashlib

from jobs.errors import InputDamaged, ObjectMissing
from jobs.storage import Storage


def read_lines(storage: Storage, key: str, *, sha256: str | None) -> list[bytes]:
    """Every line of an input, without its line feed.  `sha256` is None of a shard that was cut
    before it was kept.  Raises InputDamaged if it is not what was written, or not there."""
    try:
        content = storage.read(key)
    except ObjectMissing as missing:
        raise InputDamaged(f"{key}: {missing}") from missing
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise InputDamaged(f"{key}: its bytes are not those that were written")
    return content.split(b"\n")
