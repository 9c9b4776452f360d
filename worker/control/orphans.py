"""The periodic task that deletes what crashed attempts left in the bucket.

It walks all of the bucket, a bounded number of pages a round, and then rests.
"""

import logging
import time
from datetime import timedelta

from jobs import metrics, orphans
from jobs.database import Sessions
from jobs.storage import ListedObject, Storage
from worker.control.deleting import delete

log = logging.getLogger(__name__)

# No object is named by its row so long after it was written.
SAFE_AGE = timedelta(days=1)

_PAGES = 10  # of one round
_REST = 3600.0  # seconds between two walks


class OrphanCollector:
    def __init__(
        self, sessions: Sessions, storage: Storage, *, older_than: timedelta = SAFE_AGE
    ) -> None:
        self._sessions = sessions
        self._storage = storage
        self._older_than = older_than
        self._after = ""
        self._rests_until = 0.0

    def collect(self) -> None:
        """One round; nothing while it rests."""
        if time.monotonic() < self._rests_until:
            return
        for _ in range(_PAGES):
            page = self._storage.page(after=self._after)
            if not page:
                self._after, self._rests_until = "", time.monotonic() + _REST
                return
            self._delete_orphans(page)
            self._after = page[-1].key

    def _delete_orphans(self, page: list[ListedObject]) -> None:
        with self._sessions() as session:
            before = orphans.moment_before_now(session, self._older_than)
            old = [found.key for found in page if found.modified < before]
            keys = orphans.among(session, old)
        if keys:
            gone = len(keys) - len(delete(self._storage, keys, kept="tried again by the next walk"))
            metrics.OBJECTS_COLLECTED.labels("orphan").inc(gone)
            log.info("orphans deleted", extra={"objects": gone})
