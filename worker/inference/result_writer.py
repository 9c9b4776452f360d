"""Makes finished rows durable: a segment object to S3, then its rows in one fenced transaction.

Each shard has an output that gathers its rows and is flushed when enough lie there, when the oldest
has waited long enough, or when the shard is through.  Flushes of one shard never overlap.  What
cannot be written now is kept and tried again for as long as the lease lasts.
"""

import hashlib
import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from jobs import finishing, leases, results
from jobs.database import Sessions
from jobs.errors import LeaseLost, StorageUnavailable
from jobs.leases import ShardLease
from jobs.models import JobKind
from jobs.results import Row, SegmentDraft
from jobs.storage import Storage
from jobs.workers import Held
from worker.threads import Crew

log = logging.getLogger(__name__)

FLUSH_ROWS = 512  # as many as a shard has at most
FLUSH_BYTES = 8 * 2**20  # whoever reads a segment holds it in memory
FLUSH_AFTER = 1.0  # seconds that a finished row may lie in memory; what a death may cost
_RETRY_AFTER = 1.0  # seconds


@dataclass(slots=True)  # not frozen: to make it would cost three times as much
class FinishedRow:
    """One result line and its counts, in tokens.  `ok`: it belongs in the output file."""

    index: int
    ok: bool
    line: bytes
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class ShardOutput:
    """The finished rows of one leased shard that are not yet durable."""

    def __init__(
        self,
        lease: ShardLease,
        *,
        num_rows: int,
        on_settled: Callable[[ShardLease, bool], None],
        on_lost: Callable[[ShardLease], None],
    ) -> None:
        self.lease = lease
        self.on_settled = on_settled
        self.on_lost = on_lost
        self._missing = num_rows  # rows not yet added
        self._rows = list[FinishedRow]()
        self._bytes = 0  # of their lines
        self._oldest = 0.0
        self._flushing = False
        self._closed = False
        self._retry_at = 0.0
        self._lock = threading.Lock()

    def add(self, row: FinishedRow) -> bool:
        """Returns whether it is time to write."""
        with self._lock:
            if not self._rows:
                self._oldest = time.monotonic()
            self._rows.append(row)
            self._bytes += len(row.line)
            self._missing -= 1
            return self._is_full()

    def _is_full(self) -> bool:
        many = len(self._rows) >= FLUSH_ROWS or self._bytes >= FLUSH_BYTES
        return many or self._missing == 0

    def close(self) -> None:
        """Take no part any more: the lease is gone, and what lies here is dropped."""
        with self._lock:
            self._closed = True
            self._rows, self._bytes = [], 0

    def begin_flush(self, *, now: float, everything: bool = False) -> list[FinishedRow] | None:
        """The rows to write, or None if nothing is due.

        Ends with `end_flush` or `fail_flush`.
        """
        with self._lock:
            if self._closed or self._flushing or now < self._retry_at:
                return None
            aged = bool(self._rows) and (everything or now - self._oldest >= FLUSH_AFTER)
            if not (aged or self._is_full()):
                return None
            self._flushing = True
            rows, self._rows, self._bytes = self._rows, [], 0
            return rows

    def end_flush(self) -> None:
        with self._lock:
            self._flushing = False

    def fail_flush(self, rows: list[FinishedRow]) -> None:
        """Keep rows that could not be written, for another try in a while."""
        with self._lock:
            self._flushing = False
            self._retry_at = time.monotonic() + _RETRY_AFTER
            if not self._closed:
                self._rows = rows + self._rows
                self._bytes += sum(len(row.line) for row in rows)

    def is_through(self) -> bool:
        """Whether, with the rows now being written, every row of the shard is.

        Not once it is closed: rows may have been dropped that nobody has written.
        """
        with self._lock:
            return self._missing == 0 and not self._rows and not self._closed


class ResultWriter:
    def __init__(self, sessions: Sessions, storage: Storage, crew: Crew) -> None:
        self._sessions = sessions
        self._storage = storage
        self._outputs = dict[Held, ShardOutput]()
        self._crew = crew

    def open(
        self,
        lease: ShardLease,
        *,
        num_rows: int,
        on_settled: Callable[[ShardLease, bool], None],
        on_lost: Callable[[ShardLease], None],
    ) -> ShardOutput:
        """Begin to write for a shard that has `num_rows` rows to come.

        `on_settled` hears when it is done, and whether it was its job's last open shard; `on_lost`
        that its lease has passed on.
        """
        output = ShardOutput(lease, num_rows=num_rows, on_settled=on_settled, on_lost=on_lost)
        self._outputs[lease.held] = output
        if num_rows == 0:  # all were written before a crash; only the shard is to be settled
            self._schedule(output)
        return output

    def add(self, output: ShardOutput, row: FinishedRow) -> None:
        if output.add(row):
            self._schedule(output)

    def drop(self, lease: ShardLease) -> None:
        """Forget a shard whose lease is gone."""
        output = self._outputs.pop(lease.held, None)
        if output is not None:
            output.close()

    def flush_aged(self) -> None:
        """Write what has lain long enough; called by a timer."""
        for output in list(self._outputs.values()):
            self._schedule(output)

    def flush_now(self, lease: ShardLease) -> None:
        """Write at once what has finished of a shard, on this thread, before it is handed back."""
        output = self._outputs.get(lease.held)
        rows = output and output.begin_flush(now=time.monotonic(), everything=True)
        if output and rows:
            self._flush(output, rows)

    def stop(self) -> None:
        self._crew.stop()

    def _schedule(self, output: ShardOutput) -> None:
        rows = output.begin_flush(now=time.monotonic())
        if rows is not None:
            self._crew.submit(self._flush, output, rows)

    def _flush(self, output: ShardOutput, rows: list[FinishedRow]) -> None:
        through = output.is_through()
        try:
            last = self._write(output.lease, rows, through=through)
        except LeaseLost as lost:
            log.info("results dropped: %s", lost)
            self.drop(output.lease)
            output.on_lost(output.lease)
        except (StorageUnavailable, SQLAlchemyError):
            log.warning("results not written yet, kept for another try", exc_info=True)
            output.fail_flush(rows)
        else:
            if through:
                self.drop(output.lease)  # before another flush of it can begin
                output.on_settled(output.lease, last)
            else:
                output.end_flush()
                self._schedule(output)  # for what has finished meanwhile

    def _write(self, lease: ShardLease, rows: list[FinishedRow], *, through: bool) -> bool:
        """Returns whether the job has no open shard left."""
        segment = self._put_segment(lease, rows) if rows else None
        with self._sessions.begin() as session:
            if lease.kind is JobKind.REQUEST:
                assert segment is not None
                results.flush_request(session, lease, segment)
                return False  # its job has ended with it
            if segment is not None:
                results.flush(session, lease, segment)
            if through:
                leases.complete(session, lease)
                return finishing.is_ripe(session, lease.job_id)
        return False

    def _put_segment(self, lease: ShardLease, rows: list[FinishedRow]) -> SegmentDraft:
        data = b"".join(row.line for row in rows)
        name = f"{lease.shard_id}-{lease.attempt}-{uuid.uuid4().hex[:8]}"
        key = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/out/{name}.jsonl"
        self._storage.put(key, data)
        return SegmentDraft(
            storage_key=key,
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            rows=_placed(rows),
        )


def _placed(rows: list[FinishedRow]) -> list[Row]:
    placed, start = list[Row](), 0
    for row in rows:
        tokens = (row.prompt_tokens, row.cached_tokens, row.output_tokens)
        placed.append(Row(row.index, row.ok, start, len(row.line), *tokens))
        start += len(row.line)
    return placed
