"""The periodic task that keeps the bucket clean: files and parts whose time is over, broken writes.

Each round takes away a bounded number of objects; what is left is for the next one.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy.orm import Session

from jobs import collecting, forgetting, metrics, orphans
from jobs.collecting import Garbage
from jobs.database import Sessions
from jobs.storage import Storage
from worker.control.deleting import delete

log = logging.getLogger(__name__)

_PAGE = 1000
_PAGES = 10  # of one round

# A multipart write whose process died.  None that lives takes so long.
_BROKEN_AFTER = timedelta(days=1)


class Janitor:
    def __init__(
        self, sessions: Sessions, storage: Storage, *, broken_after: timedelta = _BROKEN_AFTER
    ) -> None:
        self._sessions = sessions
        self._storage = storage
        self._broken_after = broken_after

    def tidy(self) -> None:
        """One round."""
        with self._sessions.begin() as session:
            forgetting.forget_old(session)
            collecting.expire_uploads(session)
        self._collect("part", collecting.parts, collecting.forget_parts)
        self._collect("file", collecting.files, collecting.forget_files)
        self._abort_broken_writes()

    def _abort_broken_writes(self) -> None:
        with self._sessions() as session:
            begun_before = orphans.moment_before_now(session, self._broken_after)
        aborted = self._storage.abort_uploads(begun_before=begun_before)
        metrics.OBJECTS_COLLECTED.labels("upload").inc(aborted)

    def _collect(
        self,
        kind: str,
        find: Callable[..., list[Garbage]],
        forget: Callable[[Session, Sequence[UUID]], None],
    ) -> None:
        skip = 0  # what the store keeps all the same, and what is behind it may go
        for _ in range(_PAGES):
            with self._sessions() as session:
                garbage = find(session, limit=_PAGE, skip=skip)
            if not garbage:
                return
            keys = [each.storage_key for each in garbage]
            kept = delete(self._storage, keys, kept="tried again by the next round")
            gone = [each for each in garbage if each.storage_key not in kept]
            with self._sessions.begin() as session:
                forget(session, [each.row_id for each in gone])
            metrics.OBJECTS_COLLECTED.labels(kind).inc(len(gone))
            log.info("objects deleted", extra={"objects": len(gone)})
            skip += len(garbage) - len(gone)
