"""Turns a job whose shards have all settled into its files.

The lines that result rows name are copied from their segments in input order, a window at a time,
while the next window's segments are fetched.  Disk holds two windows and the files themselves,
never the whole job's segments; memory holds two windows' rows and the few segments under way.
A segment that is not what was written is not copied from: the job waits, and is tried again.  After
an hour of that its rows are said to be lost (decision 33).
Names and ids derive from the job, so two finalizations give the same bytes.
"""

import logging
import os
import tempfile
import uuid
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import IO, NamedTuple
from uuid import UUID

from jobs import finalizing, finishing, lines, locations, metrics
from jobs.database import Sessions
from jobs.errors import SegmentDamaged, StorageRefused
from jobs.finalizing import FinalRow, Window
from jobs.finishing import FileDraft, FinalizeLease
from jobs.models import JobKind, JobState
from jobs.segment_objects import checked_line, read_whole
from jobs.storage import Storage
from worker.control import leased_jobs
from worker.control.ahead import ahead
from worker.control.hands import Hands
from worker.control.lost_results import write_off
from worker.control.spool import Spool
from worker.control.validation import refused_file

log = logging.getLogger(__name__)

_WINDOWS_AT_ONCE = 2  # one is copied while the next is fetched
_SEGMENTS_AT_ONCE = 4  # being fetched

# Of processes, before the job is given up: a week of tries, for the results are there, and what the
# finalizers die of may be the machine's fault and be put right.
_MOST_DEATHS = 180
_FINALIZER_LOST = (
    f"{_MOST_DEATHS} processes that were writing this batch's files died. Its results can be read"
    " with GET /v1/batches/{batch_id}/results, or be taken by a new batch with 'reuse_from'."
)

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

    def finalize_next(self, *, careful: bool = False) -> bool:
        """Finalize the job that has been ripe longest.  False if none is.  Raises GivenUp."""
        begin = partial(finishing.begin, careful=careful)
        return leased_jobs.do_next(self._sessions, self._hands, claim=begin, work=self._finalize)

    def finalize_leased(self, lease: FinalizeLease) -> None:
        """Finalize one job, or give it up: for good if the lease is lost, else for a while."""
        leased_jobs.do(self._sessions, lease, self._finalize)

    @metrics.FINALIZE_SECONDS.time()
    def _finalize(self, lease: FinalizeLease) -> None:
        if lease.deaths >= _MOST_DEATHS:
            self._give_up(lease)
            return
        with ExitStack() as stack:
            output, errors = stack.enter_context(Spool()), stack.enter_context(Spool())
            if lease.kind is JobKind.BATCH and lease.planned:
                if lease.overdue:
                    write_off(self._sessions, self._storage, lease)
                self._copy(lease, output, errors)
            drafts = self._upload(lease, output, "output"), self._upload(lease, errors, "error")
        with self._sessions.begin() as session:
            finishing.finish(session, lease, output=drafts[0], errors=drafts[1])
        log.info("job ended", extra={"job_id": str(lease.job_id), "state": lease.ends_as})

    def _give_up(self, lease: FinalizeLease) -> None:
        with self._sessions.begin() as session:
            finishing.give_up(session, lease, refused_file("finalizer_lost", _FINALIZER_LOST))
        log.error("a job is given up without its files", extra={"job_id": str(lease.job_id)})

    def _copy(self, lease: FinalizeLease, output: Spool, errors: Spool) -> None:
        try:
            self._copy_lines(lease, output, errors)
            self._check(lease, output, errors)
        except (SegmentDamaged, FilesDisagree):
            with self._sessions.begin() as session:
                finishing.note_damage(session, lease)
            raise

    def _copy_lines(self, lease: FinalizeLease, output: Spool, errors: Spool) -> None:
        windows = finalizing.windows(self._sessions, lease.job_id)
        with ExitStack() as files:
            fetch = partial(self._fetch, files)
            with closing(ahead(fetch, windows, most=_WINDOWS_AT_ONCE)) as fetched:
                for window in fetched:
                    _copy_window(lease, window, output, errors)

    def _fetch(self, files: ExitStack, window: Window) -> "_Fetched":
        """On a thread of its own.  Its file is closed with `files`, if not before."""
        file = tempfile.TemporaryFile(prefix="gristmill-")  # noqa: SIM115 - see `files`
        segments = files.enter_context(file)
        starts = dict[int, int]()
        read = partial(read_whole, self._storage)
        contents = ahead(read, window.segments.values(), most=_SEGMENTS_AT_ONCE)
        for segment_id, content in zip(window.segments, contents, strict=True):
            starts[segment_id] = segments.tell()
            segments.write(content)
        segments.flush()
        return _Fetched(window.rows, segments, starts)

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


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A window whose segments lie one after another in a file, each from its `starts` on."""

    rows: list[FinalRow]
    segments: IO[bytes]
    starts: dict[int, int]

    def line(self, row: FinalRow) -> bytes:
        assert row.segment_id is not None
        start = self.starts[row.segment_id] + row.start
        return checked_line(os.pread(self.segments.fileno(), row.length, start), row.length)


class _Outside(NamedTuple):
    """A file in a bucket of its tenant's, which may change it; the row says which version it was.

    Its name is not the attempt's: whoever finalizes again writes the same bytes.
    """

    bucket: str
    key: str
    etag: str


def _copy_window(lease: FinalizeLease, window: _Fetched, output: Spool, errors: Spool) -> None:
    with window.segments:
        for row in window.rows:
            if row.segment_id is None:
                errors.add(_never_ran(lease, row))
            else:
                (output if row.ok else errors).add(window.line(row))


def _never_ran(lease: FinalizeLease, row: FinalRow) -> bytes:
    if lease.ends_as not in _NEVER_RAN:
        raise FilesDisagree(f"job {lease.job_id}: every shard is done, row {row.index} is not")
    code, message = _NEVER_RAN[lease.ends_as]
    return lines.never_ran(
        lease.job_id, row.index, custom_id=row.custom_id, code=code, message=message
    )


def _file_id(job_id: UUID, name: str) -> UUID:
    return uuid.uuid5(job_id, name)
