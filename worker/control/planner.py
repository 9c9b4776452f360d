"""Plans one batch: validates its file in one streaming pass and cuts it into shards.

A window of the file at a time is judged, grouped by shared prefix, written to S3 as the input
objects of shards, and loaded as request rows.  Then one transaction stamps the shards and starts
the job.  Memory holds one window and a small draft for each shard, whatever the file's size.
"""

import hashlib
import logging
from collections.abc import Iterable, Iterator

import orjson

from jobs import earlier, job_leases, lines, planning
from jobs.database import Sessions
from jobs.doorbell import CONTROL, Doorbell, inference_queue
from jobs.errors import BatchRefused, FileChanged, LeaseLost
from jobs.fairness import cost_of
from jobs.lines import MAX_LINE_BYTES, BadLine, InputLine
from jobs.models import OnInvalidLine
from jobs.planning import Plan, PlanLease, RequestRow, ShardDraft
from jobs.requests import expected_output_tokens
from jobs.secrets import Secrets
from jobs.storage import Storage
from worker.control import grouping
from worker.control.grouping import Pack, PlannedRow
from worker.control.hands import Hands
from worker.control.reuse import Reuse
from worker.control.spool import SegmentWriter
from worker.control.validation import (
    Findings,
    Judge,
    Judged,
    ModelLookup,
    refused_file,
    split_lines,
)

log = logging.getLogger(__name__)

WINDOW_BYTES = 8 * 2**20  # of input lines; parsed and grouped they take ten times that
MAX_LINES = 1_000_000
_ANALYZE_FROM = 1_000  # shards


class Planner:
    def __init__(
        self,
        sessions: Sessions,
        storage: Storage,
        doorbell: Doorbell,
        *,
        secrets: Secrets,
        hands: Hands,
    ) -> None:
        self._sessions = sessions
        self._storage = storage
        self._doorbell = doorbell
        self._secrets = secrets
        self._hands = hands

    def plan_next(self) -> bool:
        """Plan the oldest batch that waits.  False if none does."""
        with self._sessions.begin() as session:
            lease = planning.claim(session, self._hands.me)
        if lease is None:
            return False
        with self._hands.holding(lease.job_id, lease.attempt):
            self.plan_leased(lease)
        return True

    def plan_leased(self, lease: PlanLease) -> None:
        """Plan one batch, or give it up: for good if the lease is lost, else for a while."""
        try:
            self._plan(lease)
        except LeaseLost as lost:
            log.info("planning dropped: %s", lost)
        except Exception:
            with self._sessions.begin() as session:
                job_leases.release(session, lease)
            raise

    def _plan(self, lease: PlanLease) -> None:
        with self._sessions.begin() as session:
            planning.start_over(session, lease)
        judge = Judge(endpoint=lease.endpoint, known_models=ModelLookup(self._model_exists))
        with SegmentWriter() as invalid:
            draft = _Draft(lease, invalid, Reuse(self._sessions, self._storage, lease))
            try:
                self._load(draft, judge)
                self._mark_duplicates(draft)
                self._cut(draft, judge.model)
            except (BatchRefused, FileChanged) as refusal:
                self._fail(lease, refused_file(refusal.code, str(refusal)))

    def _load(self, draft: "_Draft", judge: Judge) -> None:
        """One pass over the file, a window at a time."""
        bucket = self._storage.within(draft.lease.bucket)
        chunks = bucket.stream(draft.lease.storage_key, etag=draft.lease.etag)
        judged = judge.judge(split_lines(chunks, limit=MAX_LINE_BYTES))
        salt = self._secrets.salt(draft.lease.tenant_id)
        for window in _windows(judged):
            if wanted := self._wanted(draft.lease, window):
                self._plan_window(draft, wanted, salt)
            del window, wanted  # or two windows would stand in memory while the next is read

    def _plan_window(self, draft: "_Draft", window: list[Judged], salt: str) -> None:
        draft.count(window)
        rows = [_planned(line, salt) for line in window if _is_good(line) and draft.can_run]
        with self._sessions.begin() as session:
            planning.load(session, draft.lease, _request_rows(window, rows))
        reused = draft.reuse.take(window[0].index, window[-1].index)
        rows = [row for row in rows if row.index not in reused]
        draft.shards += [self._write_input(draft, group) for group in grouping.pack(rows)]

    def _wanted(self, lease: PlanLease, window: list[Judged]) -> list[Judged]:
        """All of a file's lines; of a retried batch's, those that are to run again."""
        if lease.retry_of is None:
            return window
        first, last = window[0].index, window[-1].index
        with self._sessions() as session:
            wanted = earlier.rows_to_retry(session, lease.retry_of, first=first, last=last)
        return [line for line in window if line.index in wanted]

    def _write_input(self, draft: "_Draft", group: Pack) -> ShardDraft:
        lease = draft.lease
        name = f"{lease.attempt}-{group.rows[0].index}"
        key = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/in/{name}.jsonl"
        self._storage.put(key, b"".join(row.line for row in group.rows))
        return ShardDraft(key, len(group.rows), group.cost, group.prefix_key)

    def _mark_duplicates(self, draft: "_Draft") -> None:
        with self._sessions() as session:
            for double in planning.duplicates(session, draft.lease.job_id):
                message = f"'{double.custom_id[:80]}' is the custom_id of line {double.first_line}."
                bad = BadLine("duplicate_custom_id", message, "custom_id")
                draft.refuse(double.index, double.line, bad)

    def _cut(self, draft: "_Draft", model: str | None) -> None:
        lease, found = draft.lease, draft.findings
        if draft.total == 0:
            raise BatchRefused("empty_file", "The file holds no request.")
        if not draft.can_run or model is None or found.total == draft.total:
            self._fail(lease, found.as_json())
            return
        key = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/out/invalid-{lease.attempt}.jsonl"
        errors = orjson.dumps(found.as_json()).decode() if found.total else None
        segment = draft.invalid.write(self._storage, key)
        with self._sessions.begin() as session:
            reused = draft.reuse.segments()
            plan = Plan(model, draft.total, draft.shards, segment, errors, reused)
            planning.cut(session, lease, plan)
        self._start(model, len(draft.shards))

    def _start(self, model: str, num_shards: int) -> None:
        if num_shards >= _ANALYZE_FROM:
            with self._sessions.begin() as session:
                planning.analyze(session)
        self._doorbell.ring(inference_queue(model) if num_shards else CONTROL)

    def _fail(self, lease: PlanLease, found: list[dict[str, object]]) -> None:
        with self._sessions.begin() as session:
            planning.fail(session, lease, found)
        log.info("batch failed validation", extra={"job_id": str(lease.job_id)})

    def _model_exists(self, name: str) -> bool:
        with self._sessions() as session:
            return planning.model_exists(session, name)


class _Draft:
    """What the pass has found so far."""

    def __init__(self, lease: PlanLease, invalid: SegmentWriter, reuse: Reuse) -> None:
        self.lease = lease
        self.invalid = invalid
        self.reuse = reuse
        self.findings = Findings()
        self.shards = list[ShardDraft]()
        self.total = 0
        self._refused = bytearray()  # by index

    @property
    def can_run(self) -> bool:
        """Whether shards are still worth writing."""
        return self.findings.total == 0 or self.lease.on_invalid_line is OnInvalidLine.SKIP

    def count(self, window: list[Judged]) -> None:
        self.total += len(window)
        if self.total > MAX_LINES:
            raise BatchRefused("too_many_tasks", f"The file has over {MAX_LINES:,} requests.")
        for line in window:
            if isinstance(line.content, BadLine):
                self.refuse(line.index, line.number, line.content)

    def refuse(self, index: int, number: int, bad: BadLine) -> None:
        """Count a line as bad by its first fault; what its error line says is the last one: a bad
        line that is a duplicate too may not bear another's custom_id."""
        self._refused.extend(bytes(max(0, index + 1 - len(self._refused))))
        if not self._refused[index]:
            self._refused[index] = True
            self.findings.add(number, bad)
        if self.lease.on_invalid_line is OnInvalidLine.SKIP:
            error_line = lines.invalid(self.lease.job_id, index, line=number, bad=bad)
            self.invalid.add(index, error_line, ok=False)


def _windows(judged: Iterable[Judged]) -> Iterator[list[Judged]]:
    """Runs of lines of at most WINDOW_BYTES, and of one line at least."""
    window, size = list[Judged](), 0
    for line in judged:
        if window and size + line.size > WINDOW_BYTES:
            yield window
            window, size = [], 0
        window.append(line)
        size += line.size
    if window:
        yield window


def _is_good(line: Judged) -> bool:
    return isinstance(line.content, InputLine)


def _planned(line: Judged, salt: str) -> PlannedRow:
    content = line.content
    assert isinstance(content, InputLine)
    body = orjson.dumps(content.body)
    row = {"index": line.index, "custom_id": content.custom_id, "body": orjson.Fragment(body)}
    text = grouping.prompt_text(content.body)
    return PlannedRow(
        line.index,
        text,
        grouping.prefix_keys(salt, text),
        cost_of(line.size, expected_output_tokens(content.body)),
        orjson.dumps(row) + b"\n",
        hashlib.blake2b(body, digest_size=16).hexdigest(),
    )


def _request_rows(window: list[Judged], planned: list[PlannedRow]) -> Iterator[RequestRow]:
    digests = {row.index: row.body_digest for row in planned}
    for line in window:
        digest = digests.get(line.index)
        yield RequestRow(line.index, line.number, line.content.custom_id, digest)
