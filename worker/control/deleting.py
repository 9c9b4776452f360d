"""Deletes objects for whoever goes on with those that are gone, whatever the store keeps."""

import logging

from jobs.errors import NotDeleted
from jobs.storage import Storage

log = logging.getLogger(__name__)


def delete(storage: Storage, keys: list[str], *, kept: str) -> frozenset[str]:
    """Returns the keys that the store keeps; `kept` says in the log what becomes of those."""
    try:
        storage.delete(keys)
    except NotDeleted as refusal:
        log.warning("%s: %s", kept, refusal)
        return refusal.keys
    return frozenset()
