"""Turns a job whose shards have all settled into its files.

The lines that result rows name are copied from their segments in input order, a window at a time,
through spool files: memory and disk hold a window and the files themselves, never the whole job's
segments.  Names and ids derive from the job, so two finalizations give the same bytes.
"""

import logging
import tempfile
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from typing import IO, NamedTuple
from uuid import UUID

from jobs import finalizing, finishing, job_leases, lines, locations
from jobs.database import Sessions
from jobs.errors import LeaseLost, StorageRefused
from jobs.finalizing import FinalRow
from jobs.finishing import FileDraft, FinalizeLease
from jobs.models import JobKind, JobState
from jobs.storage import Storage
from worker.control.hands import Hands
from worker.control.spool import Spool

log = logging.getLogger(__name__)

# What the error file says of the rows that never ran.
_NEVER_RAN = {
    JobState.CANCELLED: ("batch_cancelled", "The batch was cancelled before this request ran."),
    JobState.EXPIRED: ("batch_expired", "The batch's window ended before this request ran."),
}


class FilesDisagree(Exception):
    """The files, the result rows and the segments' counts are not of one mind: a bug.  The job
    does not end, so that nobody takes an incomplete file for a complete one."""


class Finalizer:
    def __init__(self, sessions: Sessions, storage: Storage, hands: Hands) -> None:
        self._sessions = sessions
        self._storage = storage
        self._hands = hands

    def finalize_next(self) -> bool:
        """Finalize the oldest job that is ripe.  False if none is, or if it has to wait."""
        with self._sessions.begin() as session:
            lease = finishing.begin(session, self._hands.me)
        if lease is None:
            return False
        with self._hands.holding(lease.job_id, lease.attempt):
            self._finalize_leased(lease)
        return True

    def _finalize_leased(self, lease: FinalizeLease) -> None:
        try:
            self._finalize(lease)
        except LeaseLost as lost:
            log.info("finalizing dropped: %s", lost)
        except Exception:
            with self._sessions.begin() as session:
                job_leases.release(session, lease)
            raise

    def _finalize(self, lease: FinalizeLease) -> None:
        with ExitStack() as stack:
            output, errors = stack.enter_context(Spool()), stack.enter_context(Spool())
            if lease.kind is JobKind.BATCH and lease.planned:
                self._copy_lines(lease, output, errors)
                self._check(lease, output, errors)
            drafts = self._upload(lease, output, "output"), self._upload(lease, errors, "error")
        with self._sessions.begin() as session:
            finishing.finish(session, lease, output=drafts[0], errors=drafts[1])
        log.info("job ended", extra={"job_id": str(lease.job_id), "state": lease.ends_as})

    def _copy_lines(self, lease: FinalizeLease, output: Spool, errors: Spool) -> None:
        for window in finalizing.windows(self._sessions, lease.job_id):
            with tempfile.TemporaryFile(prefix="gristmill-") as segments:
                starts = self._fetch(window, segments)
                for row in window:
                    if row.segment_id is None:
                        errors.add(_never_ran(lease, row))
                        continue
                    segments.seek(starts[row.segment_id] + row.start)
                    (output if row.ok else errors).add(segments.read(row.length))

    def _fetch(self, window: Iterable[FinalRow], into: IO[bytes]) -> dict[int, int]:
        """Append each segment that the window names to a file; return where each starts."""
        keys = {row.segment_id: row.storage_key for row in window if row.segment_id is not None}
        starts = {}
        for segment_id, key in keys.items():
            starts[segment_id] = into.tell()
            for chunk in self._storage.stream(key):
                into.write(chunk)
        return starts

    def _check(self, lease: FinalizeLease, output: Spool, errors: Spool) -> None:
        with self._sessions() as session:
            tally = finishing.tally(session, lease.job_id)
        written = (output.lines, output.lines + errors.lines)
        if not tally.agrees or written != (tally.completed, lease.total):
            raise FilesDisagree(f"job {lease.job_id}: {tally}, lines written {written}")

    def _upload(self, lease: FinalizeLease, spool: Spool, name: str) -> FileDraft | None:
        if spool.lines == 0:
            return None
        outside = self._put_outside(lease, spool, name)
        return FileDraft(
            id=_file_id(lease.job_id, name),
            filename=f"batch_{lease.job_id.hex}_{name}.jsonl",
            storage_key=outside.key if outside else self._put_inside(lease, spool, name),
            bytes=spool.size,
            sha256=spool.sha256,
            lines=spool.lines,
            bucket=outside and outside.bucket,
            etag=outside and outside.etag,
        )

    def _put_inside(self, lease: FinalizeLease, spool: Spool, name: str) -> str:
        folder = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}"
        key = f"{folder}/{name}-{lease.attempt}.jsonl"
        spool.upload(self._storage, key)
        return key

    def _put_outside(self, lease: FinalizeLease, spool: Spool, name: str) -> "_Outside | None":
        """Write a file to where its tenant wants it.  None if that is our bucket, or the other's
        refuses: results are there all the same, and may be read through the API."""
        if lease.output_prefix is None:
            return None
        location = locations.of_result(lease.output_prefix, lease.job_id, name)
        bucket = self._storage.within(location.bucket)
        try:
            spool.upload(bucket, location.key)
            found = bucket.find(location.key)
        except StorageRefused as refusal:
            log.warning("kept here, for %s cannot be written: %s", location, refusal)
            return None
        return None if found is None else _Outside(location.bucket, location.key, found.etag)


class _Outside(NamedTuple):
    """A file in a bucket of its tenant's, which may change it; the row says which version it was.

    Its name is not the attempt's: whoever finalizes again writes the same bytes.
    """

    bucket: str
    key: str
    etag: str


def _never_ran(lease: FinalizeLease, row: FinalRow) -> bytes:
    if lease.ends_as not in _NEVER_RAN:
        raise FilesDisagree(f"job {lease.job_id}: every shard is done, row {row.index} is not")
    code, message = _NEVER_RAN[lease.ends_as]
    return lines.never_ran(
        lease.job_id, row.index, custom_id=row.custom_id, code=code, message=message
    )


def _file_id(job_id: UUID, name: str) -> UUID:
    return uuid.uuid5(job_id, name)
