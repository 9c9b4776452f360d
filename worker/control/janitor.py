"""The periodic task that keeps the bucket clean: files and parts whose time is over, broken writes.

Each round takes away a bounded number of objects; what is left is for the next one.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy.orm import Session

from jobs import collecting
from jobs.collecting import Garbage
from jobs.database import Sessions
from jobs.storage import Storage

log = logging.getLogger(__name__)

_PAGE = 1000
_PAGES = 10  # of one round

# A multipart write whose process died.  None that lives takes so long.
_BROKEN_AFTER = timedelta(days=1)


class Janitor:
    def __init__(self, sessions: Sessions, storage: Storage) -> None:
        self._sessions = sessions
        self._storage = storage

    def tidy(self) -> None:
        """One round."""
        with self._sessions.begin() as session:
            collecting.expire_uploads(session)
        self._collect(collecting.parts, collecting.forget_parts)
        self._collect(collecting.files, collecting.forget_files)
        self._storage.abort_uploads(older_than=_BROKEN_AFTER)

    def _collect(
        self,
        find: Callable[..., list[Garbage]],
        forget: Callable[[Session, Sequence[UUID]], None],
    ) -> None:
        for _ in range(_PAGES):
            with self._sessions() as session:
                garbage = find(session, limit=_PAGE)
            if not garbage:
                return
            self._storage.delete([each.storage_key for each in garbage])
            with self._sessions.begin() as session:
                forget(session, [each.row_id for each in garbage])
            log.info("objects deleted", extra={"objects": len(garbage)})
