"""Plans one batch: validates its file in one streaming pass and cuts it into shards.

A window of the file at a time is judged, loaded as request rows and grouped by shared prefix; the
groups are written to S3 as the input objects of shards, some at a time, while the pass goes on.
When the last of them is there, one transaction stamps the shards and starts the job: no shard has
an input that is not written, and what a plan that died has left is garbage and nothing else.
Memory holds one window, the inputs being written and a small draft for each shard, whatever the
file's size.
"""

import hashlib
import logging
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, chain

import orjson

from jobs import earlier, planning, reading
from jobs.database import Sessions
from jobs.doorbell import CONTROL, Doorbell, inference_queue
from jobs.errors import BatchRefused, FileChanged, ObjectRefused
from jobs.lines import BadLine, FileLimits
from jobs.planning import Plan, PlanLease, ShardDraft
from jobs.secrets import Secrets
from jobs.storage import Storage
from worker.control import grouping, leased_jobs, rows
from worker.control.ahead import ahead
from worker.control.draft import Draft
from worker.control.grouping import Pack, PlannedRow
from worker.control.hands import Hands
from worker.control.reuse import Reuse
from worker.control.rows import Window
from worker.control.segments import SegmentWriter
from worker.control.validation import Judge, ModelLookup, refused_file, split_lines

log = logging.getLogger(__name__)

_INPUTS_AT_ONCE = 4  # being written
_MOST_DEATHS = 6  # of planners, before their file is to blame
_PLANNER_LOST = f"{_MOST_DEATHS} processes that were reading this file died."
_ANALYZE_FROM = 1_000  # shards
_STANDARD = FileLimits()


class Planner:
    def __init__(
        self,
        sessions: Sessions,
        storage: Storage,
        doorbell: Doorbell,
        *,
        secrets: Secrets,
        hands: Hands,
        limits: FileLimits = _STANDARD,
    ) -> None:
        self._limits = limits
        self._sessions = sessions
        self._storage = storage
        self._doorbell = doorbell
        self._secrets = secrets
        self._hands = hands

    def plan_next(self, *, careful: bool = False) -> bool:
        """Plan the batch that has waited longest.  False if none does.  Raises GivenUp."""
        claim = partial(planning.claim, careful=careful)
        return leased_jobs.do_next(self._sessions, self._hands, claim=claim, work=self._plan)

    def plan_leased(self, lease: PlanLease) -> None:
        """Plan one batch, or give it up: for good if the lease is lost, else for a while."""
        leased_jobs.do(self._sessions, lease, self._plan)

    def _plan(self, lease: PlanLease) -> None:
        if lease.deaths >= _MOST_DEATHS:
            self._fail(lease, refused_file("planner_lost", _PLANNER_LOST))
            return
        with self._sessions.begin() as session:
            planning.start_over(session, lease)
        judge = Judge(
            endpoint=lease.endpoint,
            known_models=ModelLookup(self._model_exists, self._model_names),
            max_line_bytes=self._limits.line_bytes,
        )
        with SegmentWriter(ok=False) as invalid:
            reuse = Reuse(self._sessions, self._storage, lease)
            draft = Draft(lease, invalid, reuse, max_lines=self._limits.lines)
            try:
                packs = self._packs(draft, judge)
                write = partial(self._write_input, lease)
                written = ahead(write, grouping.bundled(packs), most=_INPUTS_AT_ONCE)
                draft.shards = list(chain.from_iterable(written))
                self._mark_duplicates(draft)
                self._cut(draft, judge.model)
            except (BatchRefused, FileChanged) as refusal:
                self._fail(lease, refused_file(refusal.code, str(refusal)))

    def _packs(self, draft: Draft, judge: Judge) -> Iterator[Pack]:
        """One pass over the file: the shards to be written, a window's at a time."""
        judged = judge.judge(split_lines(self._chunks(draft.lease), limit=self._limits.line_bytes))
        for window in rows.windows(judged, salt=self._secrets.salt(draft.lease.tenant_id)):
            if wanted := self._wanted(draft.lease, window):
                yield from self._packs_of(draft, wanted)
            del window, wanted  # or two windows would stand in memory while the next is read

    def _chunks(self, lease: PlanLease) -> Iterator[bytes]:
        """The file's bytes.  A store that has no such object, or keeps it from us, ends the batch:
        it would say so until the window ends.  One that is down does not.  Raises FileChanged at
        the end if they are not those that were stored: some of its lines may be missing."""
        bucket, sha256 = self._storage.within(lease.bucket), hashlib.sha256()
        try:
            for chunk in bucket.stream(lease.storage_key, etag=lease.etag):
                sha256.update(chunk)
                yield chunk
        except ObjectRefused as refusal:
            message = f"The batch's input file cannot be read: {refusal}"
            raise BatchRefused("file_unavailable", message) from refusal
        if sha256.hexdigest() != lease.sha256:
            raise FileChanged("The bytes of the batch's input file changed. Upload it again.")

    def _packs_of(self, draft: Draft, window: Window) -> Iterator[Pack]:
        draft.count(window)
        with self._sessions.begin() as session:
            planning.load(session, draft.lease, (row.request for row in window))
        reused = draft.reuse.take(window[0].request.index, window[-1].request.index)
        if draft.can_run:
            planned = (row for row in window if isinstance(row, PlannedRow))
            todo = [row for row in planned if row.index not in reused]
            # A file of one window may have fewer shards than there are workers: smaller ones then.
            halves = 2 if draft.total == len(window) else 1
            yield from grouping.pack(todo, most_rows=grouping.MAX_SHARD_ROWS // halves)

    def _wanted(self, lease: PlanLease, window: Window) -> Window:
        """All of a file's lines; of a retried batch's, those that are to run again."""
        if lease.retry_of is None:
            return window
        first, last = window[0].request.index, window[-1].request.index
        with self._sessions() as session:
            wanted = earlier.rows_to_retry(session, lease.retry_of, first=first, last=last)
        return [row for row in window if row.request.index in wanted]

    def _write_input(self, lease: PlanLease, packs: list[Pack]) -> list[ShardDraft]:
        """On one of several threads."""
        name = f"{lease.attempt}-{packs[0].rows[0].index}"
        key = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/in/{name}.jsonl"
        data = b"".join(row.line for pack in packs for row in pack.rows)
        self._storage.put(key, data)
        sha256 = hashlib.sha256(data).hexdigest()
        firsts = accumulate((len(pack.rows) for pack in packs), initial=0)
        return [
            ShardDraft(key, len(pack.rows), pack.cost, pack.prefix_key, sha256, first)
            for pack, first in zip(packs, firsts, strict=False)
        ]

    def _mark_duplicates(self, draft: Draft) -> None:
        with self._sessions() as session:
            for double in planning.duplicates(session, draft.lease.job_id):
                message = f"'{double.custom_id[:80]}' is the custom_id of line {double.first_line}."
                bad = BadLine("duplicate_custom_id", message, "custom_id")
                draft.refuse(double.index, double.line, bad)

    def _cut(self, draft: Draft, model: str | None) -> None:
        lease, found = draft.lease, draft.findings
        if draft.total == 0:
            raise BatchRefused("empty_file", "The file holds no request.")
        if not draft.can_run or model is None or found.total == draft.total:
            self._fail(lease, found.as_json())
            return
        errors = orjson.dumps(found.as_json()).decode() if found.total else None
        folder = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/out"
        invalid = draft.invalid.write(self._storage, f"{folder}/invalid-{lease.attempt}")
        # The invalid ones first: a duplicate of a line with a result taken is still a duplicate.
        finished = (segment.draft() for segment in chain(invalid, draft.reuse.segments()))
        with self._sessions.begin() as session:
            planning.cut(session, lease, Plan(model, draft.total, draft.shards, errors, finished))
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

    def _model_names(self) -> list[str]:
        with self._sessions() as session:
            return reading.model_names(session)
