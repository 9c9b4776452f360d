"""The periodic task that makes batches of what people put into drop folders.

A folder is listed whole each time: an object is known by its row, not by when it came, so nothing
is missed.  Its results are written beside it by the finalizer, as to any output prefix; of a file
that cannot run, this says why, and it takes away what an earlier version of the file left there.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from uuid import UUID

import orjson
from sqlalchemy.orm import Session

from jobs import drops
from jobs.database import Sessions
from jobs.doorbell import CONTROL, Doorbell
from jobs.drops import EndedObject
from jobs.errors import QuotaExceeded, RequestRefused, StorageRefused, StorageUnavailable
from jobs.files import NewFile
from jobs.locations import Location, of_result
from jobs.models import Drop, JobState
from jobs.references import MAX_BYTES, read_reference
from jobs.storage import Storage, StoredObject

log = logging.getLogger(__name__)

_PAGE = 1000
# Of one folder in one round, so that none waits for another's thousands, or for its gigabytes.
_MAX_TAKEN = 100
_MAX_READ = 2**30  # bytes, and the file that goes beyond
_MAX_TOLD = 100  # of one folder in one round
_REST = 60.0  # seconds, of a folder whose tenant has no room for what was read


class DropWatch:
    def __init__(
        self,
        sessions: Sessions,
        storage: Storage,
        doorbell: Doorbell,
        *,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`max_bytes`: of one file."""
        self._max_bytes = max_bytes
        self._sessions = sessions
        self._storage = storage
        self._doorbell = doorbell
        self._unreadable = set[UUID]()  # drop folders of which it has been said
        self._too_large = set[StoredObject]()  # the same
        self._rests_until = dict[UUID, float]()  # by drop folder, on this process's clock

    def look(self) -> None:
        """One round over all folders."""
        with self._sessions() as session:
            watched = drops.watched(session)
        for drop in watched:
            if time.monotonic() < self._rests_until.get(drop.id, 0.0):
                continue
            try:
                self._look_into(drop)
                self._unreadable.discard(drop.id)
            except StorageUnavailable as error:
                self._warn(drop, error)
        self._tell()

    def _warn(self, drop: Drop, error: StorageUnavailable) -> None:
        """Once, until it has been read again: the rounds come every few seconds."""
        if drop.id not in self._unreadable:
            log.warning("s3://%s/%s cannot be read: %s", drop.bucket, drop.prefix, error)
            self._unreadable.add(drop.id)

    def _look_into(self, drop: Drop) -> None:
        if drop.bucket == self._storage.bucket:
            log.error("a drop folder lies in our own bucket", extra={"drop": str(drop.id)})
            return
        read = 0
        for found in islice(self._unknown(drop), _MAX_TAKEN):
            self._take(drop, found)
            read += found.size
            if read >= _MAX_READ:
                return

    def _unknown(self, drop: Drop) -> Iterator[StoredObject]:
        objects = self._storage.within(drop.bucket).objects(drop.prefix)
        inputs = (found for found in objects if drops.is_input(found.key) and self._fits(found))
        for page in _pages(inputs):
            with self._sessions() as session:
                unknown = drops.unknown(session, drop, page)
            yield from unknown

    def _fits(self, found: StoredObject) -> bool:
        if found.size <= self._max_bytes:
            return True
        if found not in self._too_large:
            log.warning("left alone, for it has over %s bytes: %s", self._max_bytes, found.key)
            self._too_large.add(found)
        return False

    def _take(self, drop: Drop, found: StoredObject) -> None:
        location = Location(drop.bucket, found.key)
        try:
            with self._sessions.begin() as session:
                drops.check_room(session, drop, found)
            new = read_reference(self._storage, location, tenant_id=drop.tenant_id)
            with self._sessions.begin() as session:
                taken = self._taken(session, drop, new)
        except RequestRefused as refusal:  # changed or gone meanwhile, or over a quota
            log.warning("%s waits for the next round: %s", location, refusal)
            return
        if taken:
            log.info("%s is a batch now", location)
            self._doorbell.ring(CONTROL)

    def _taken(self, session: Session, drop: Drop, new: NewFile) -> bool:
        try:
            return drops.take(session, drop, new)
        except QuotaExceeded:
            self._rests_until[drop.id] = time.monotonic() + _REST  # all of it was read for nothing
            raise

    def _tell(self) -> None:
        with self._sessions() as session:
            ended = drops.ended(session, limit=_MAX_TOLD)
        away = set[str]()  # one bucket may be slow, and others not
        for each in ended:
            if each.location.bucket in away:
                continue
            try:
                if each.newest:
                    self._tidy_beside(each)
            except StorageUnavailable as error:
                log.warning("%s is settled by a later round: %s", each.location, error)
                away.add(each.location.bucket)
                continue
            with self._sessions.begin() as session:
                drops.settle(session, each.job_id)

    def _tidy_beside(self, ended: EndedObject) -> None:
        """Put the errors of a file that could not run beside it, and take away what an earlier
        version left there and this one has not written over."""
        for name in ("output", "error"):
            place = of_result(drops.stem(ended.location), ended.job_id, name)
            bucket = self._storage.within(place.bucket)
            try:
                if name == "error" and ended.state is JobState.FAILED:
                    bucket.put(place.key, b"".join(orjson.dumps(e) + b"\n" for e in ended.errors))
                elif name not in ended.written and not ended.first:
                    bucket.delete([place.key])
            except StorageRefused as refusal:
                log.warning("%s cannot be written: %s", place, refusal)


def _pages(objects: Iterable[StoredObject]) -> Iterator[list[StoredObject]]:
    rest = iter(objects)
    while page := list(islice(rest, _PAGE)):
        yield page
