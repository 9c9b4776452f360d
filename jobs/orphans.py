"""Which objects of our bucket no committed row names, and none that could still commit will.

A key says whose object it is.  What lies in a batch's folder is left alone until the batch has
ended: its writers are fenced from then on, so that nothing there can be named any more.  Of files
and parts the row follows the object within a request, long before the age at which anybody asks
here.  A key that is not one of ours is nobody's to judge.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

_ID = "[0-9a-f]{32}"
_KEYS = {
    "file": re.compile(rf"t/{_ID}/files/({_ID})"),
    "part": re.compile(rf"t/{_ID}/uploads/{_ID}/({_ID})"),
    "job": re.compile(rf"t/{_ID}/b/({_ID})/.+"),
    "probe": re.compile(rf"probe/({_ID})"),
}


class Owner(NamedTuple):
    """What an object is part of, and the id of that by its key."""

    kind: str
    row_id: UUID


def owner_of(key: str) -> Owner | None:
    for kind, pattern in _KEYS.items():
        if found := pattern.fullmatch(key):
            return Owner(kind, UUID(hex=found[1]))
    return None


# What rows name is looked up once for all of the keys: a search for each would read as many times
# over whatever an ended batch has of shards and segments.
_ORPHANS = text("""
    SELECT k.key
      FROM unnest(CAST(:keys AS text[]), CAST(:kinds AS text[]), CAST(:ids AS uuid[]))
           AS k (key, kind, id)
     WHERE CASE k.kind
           WHEN 'probe' THEN true
           WHEN 'file' THEN NOT EXISTS (SELECT 1 FROM files WHERE id = k.id)
           WHEN 'part' THEN NOT EXISTS (SELECT 1 FROM upload_parts WHERE id = k.id)
           ELSE NOT EXISTS (SELECT 1 FROM jobs WHERE id = k.id AND finished_at IS NULL)
                AND k.key NOT IN (SELECT storage_key FROM segments
                                   WHERE job_id = ANY (CAST(:ids AS uuid[]))
                                     AND storage_key = ANY (CAST(:keys AS text[])))
                AND k.key NOT IN (SELECT DISTINCT input_key FROM shards
                                   WHERE input_key = ANY (CAST(:keys AS text[])))
                AND NOT EXISTS (SELECT 1 FROM jobs j
                                  JOIN files f ON f.id IN (j.output_file_id, j.error_file_id)
                                 WHERE j.id = k.id AND f.storage_key = k.key)
           END
""")

_BEFORE = text("SELECT now() - CAST(:age AS interval)")


def moment_before_now(session: Session, age: timedelta) -> datetime:
    """By Postgres's clock: a process's own may be anything."""
    moment: datetime = session.scalars(_BEFORE, {"age": age}).one()
    return moment


def among(session: Session, keys: Sequence[str]) -> list[str]:
    """Those of the keys that name an orphan."""
    owned = [(key, owner) for key in keys if (owner := owner_of(key)) is not None]
    values = {
        "keys": [key for key, _ in owned],
        "kinds": [owner.kind for _, owner in owned],
        "ids": [owner.row_id for _, owner in owned],
    }
    return list(session.scalars(_ORPHANS, values)) if owned else []
