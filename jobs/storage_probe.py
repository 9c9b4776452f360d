"""Tries a store before anything is entrusted to it: as each process starts."""

import logging
import uuid

from jobs.errors import NotDeleted, StorageUnavailable
from jobs.storage import Storage

log = logging.getLogger(__name__)

FOLDER = "probe/"


def probe(storage: Storage) -> None:
    """Refuse a store that does not give back what it was given, and say what else it cannot do.

    Old servers wrote the chunk framing of newer clients into the object (seaweedfs#6548), and
    ignored conditions (seaweedfs#7153).  Nothing here depends on a condition: keys are never
    written twice.  Raises StorageUnavailable.
    """
    key, sent = f"{FOLDER}{uuid.uuid4().hex}", b"gristmill\x00probe\n" * 64
    storage.put(key, sent)
    try:
        _check(storage, key, sent)
    finally:
        _take_away(storage, key)


def _take_away(storage: Storage, key: str) -> None:
    try:
        storage.delete([key])
    except NotDeleted as refusal:
        log.warning(
            "the store lets nothing be deleted: what is deleted here stays there: %s", refusal
        )


def _check(storage: Storage, key: str, sent: bytes) -> None:
    if storage.read(key) != sent:
        raise StorageUnavailable(
            f"S3: what is read from bucket {storage.bucket} is not what was written to it; the"
            " store, or a proxy before it, changes objects"
        )
    if storage.put_new(key, sent):
        log.warning(
            "the store ignores If-None-Match, so that two writers could meet at one key; nothing"
            " here depends on it",
            extra={"bucket": storage.bucket},
        )
