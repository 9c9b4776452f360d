"""What one pass over a batch's file has found so far."""

from jobs import lines
from jobs.errors import BatchRefused
from jobs.lines import BadLine
from jobs.models import OnInvalidLine
from jobs.planning import PlanLease, ShardDraft
from worker.control.reuse import Reuse
from worker.control.rows import RefusedRow, Window
from worker.control.segments import SegmentWriter
from worker.control.validation import Findings


class Draft:
    def __init__(
        self, lease: PlanLease, invalid: SegmentWriter, reuse: Reuse, *, max_lines: int
    ) -> None:
        self.lease = lease
        self.invalid = invalid
        self.reuse = reuse
        self.findings = Findings()
        self.shards = list[ShardDraft]()
        self.total = 0
        self._max_lines = max_lines
        self._refused = bytearray()  # by index

    @property
    def can_run(self) -> bool:
        """Whether shards are still worth writing."""
        return self.findings.total == 0 or self.lease.on_invalid_line is OnInvalidLine.SKIP

    def count(self, window: Window) -> None:
        self.total += len(window)
        if self.total > self._max_lines:
            message = f"The file has over {self._max_lines:,} requests."
            raise BatchRefused("too_many_tasks", message)
        for row in window:
            if isinstance(row, RefusedRow):
                self.refuse(row.request.index, row.request.line, row.bad)

    def refuse(self, index: int, number: int, bad: BadLine) -> None:
        """Count a line as bad by its first fault; what its error line says is the last one: a bad
        line that is a duplicate too may not bear another's custom_id."""
        self._refused.extend(bytes(max(0, index + 1 - len(self._refused))))
        if not self._refused[index]:
            self._refused[index] = True
            self.findings.add(number, bad)
        if self.lease.on_invalid_line is OnInvalidLine.SKIP:
            error_line = lines.invalid(self.lease.job_id, index, line=number, bad=bad)
            self.invalid.add(index, error_line)
