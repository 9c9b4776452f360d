"""An inference worker that answers without an engine, one call a step.

It does what worker/inference does with the functions of jobs/, and nothing that happens to the
world around it makes it stop: past its lease it goes on as a zombie until a beat tells it.
"""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from jobs import leases, results, workers
from jobs.database import Sessions
from jobs.errors import LeaseLost
from jobs.leases import ShardLease
from jobs.models import JobKind, WorkerKind
from jobs.results import Row, SegmentDraft
from jobs.storage import Storage
from jobs.workers import Held, Identity
from tests.fixtures.pipeline import answered_line
from tests.fixtures.work import MODEL

TTL = timedelta(minutes=20)
_ROOM = 500  # tokens: a shard or two at once
_NO_TIME = timedelta()
_ALL = 10**6  # rows
_ATTEMPT = text("SELECT attempt FROM shards WHERE id = :id")
_LANDED = text("SELECT ok FROM segments WHERE storage_key = :key")


@dataclass(slots=True)
class Run:
    """A shard in hand.  `doubt`: the answer to one of its flushes was lost."""

    lease: ShardLease
    todo: list[tuple[int, str | None]] | None = None  # index and custom_id; None: not started
    doubt: bool = False


@dataclass(slots=True)
class InferenceActor:
    sessions: Sessions
    storage: Storage
    me: UUID = field(default_factory=uuid.uuid4)
    runs: dict[Held, Run] = field(default_factory=dict)
    last: UUID | None = None
    alive: bool = False
    unknown: set[Held] = field(default_factory=set)

    def beat(self) -> None:
        """One beat, and what its reply asks for."""
        if not self.alive:
            self._register()
            return
        with self.sessions.begin() as session:
            alive = workers.beat(session, self.me, ttl=TTL, progress=0, stats={})
            reply = workers.compare(session, self.me, list(self.runs)) if alive else None
        if reply is None:
            self.fall()
            return
        for held in reply.stop:
            self._hand_back(held)
        for held in set(reply.unknown) & self.unknown:
            self._return_to_line(held)
        self.unknown = set(reply.unknown) - self.unknown

    def fall(self) -> None:
        """Its fence: everything is dropped, and the next beat begins another incarnation."""
        self.alive, self.last, self.me = False, self.me, uuid.uuid4()
        self.runs, self.unknown = {}, set()

    def _register(self) -> None:
        me = uuid.uuid4()
        with self.sessions.begin() as session:
            if self.last is not None:
                workers.retire(session, self.last)
            workers.register(session, Identity(me, WorkerKind.INFERENCE, MODEL, "host", 1), ttl=TTL)
        self.me, self.alive, self.last = me, True, None

    def claim_and_start(self) -> None:
        self._claim()
        self._start()

    def _claim(self) -> None:
        if any(run.lease.solo for run in self.runs.values()):
            return
        with self.sessions.begin() as session:
            claimed = leases.claim(session, self.me, model=MODEL, room=_ROOM, resident=[])
        for lease in claimed:
            self.runs[lease.held] = Run(lease)

    def _start(self) -> None:
        """Read what is held and not begun; a solo shard waits until it is alone."""
        for run in list(self.runs.values()):
            if run.todo is not None or (run.lease.solo and len(self.runs) > 1):
                continue
            if run.lease.solo and not self._take_alone(run):
                continue
            run.todo = self._unfinished(run.lease)

    def _take_alone(self, run: Run) -> bool:
        try:
            with self.sessions.begin() as session:
                leases.take_alone(session, run.lease)
        except LeaseLost:
            del self.runs[run.lease.held]
            return False
        return True

    def _unfinished(self, lease: ShardLease) -> list[tuple[int, str | None]]:
        if lease.inline is not None:
            rows: list[tuple[int, str | None]] = [(0, None)]
        else:
            assert lease.input_key is not None
            raw = self.storage.read(lease.input_key).split(b"\n")
            parsed = [orjson.loads(line) for line in raw[lease.first_line : lease.end_line]]
            rows = [(row["index"], row["custom_id"]) for row in parsed]
        with self.sessions() as session:
            done = results.finished(session, lease.job_id, [index for index, _ in rows])
        return [row for row in rows if row[0] not in done]

    def answer_a_row(self) -> None:
        for held in list(self.runs)[:1]:
            self.answer(held, 1)

    def answer_a_shard(self) -> None:
        for held in list(self.runs)[:1]:
            self.answer(held, _ALL)

    def answer_all(self) -> None:
        for held in list(self.runs):
            self.answer(held, _ALL)

    def meddle_with(self, shards: set[int]) -> None:
        """Give up each of these shards that is in hand, and write a row of it."""
        for held in [held for held in self.runs if held.shard_id in shards]:
            self._return_to_line(held)
            self.answer(held, 1)

    def answer(self, held: Held, most: int) -> None:
        """Flush up to `most` rows of a shard, and settle it with its last one."""
        run = self.runs[held]
        if run.todo is None:
            return
        rows = run.todo[:most]
        segment = self._put_segment(run.lease, rows) if rows else None
        try:
            self._write(run.lease, segment, through=len(rows) == len(run.todo))
        except LeaseLost:
            self.runs.pop(held)
            return
        except SQLAlchemyError:
            run.doubt = True
            raise
        run.todo = run.todo[len(rows) :]
        if not run.todo:
            self.runs.pop(held)
        if segment is not None and not run.doubt:
            self._all_have_landed(segment)

    def _write(self, lease: ShardLease, segment: SegmentDraft | None, *, through: bool) -> None:
        with self.sessions.begin() as session:
            if lease.kind is JobKind.REQUEST:
                assert segment is not None
                results.flush_request(session, lease, segment)
                return
            if segment is not None:
                results.flush(session, lease, segment)
            if through:
                leases.complete(session, lease)

    def _all_have_landed(self, segment: SegmentDraft) -> None:
        """Law 3: no row is computed twice, unless a flush of it was cut off."""
        with self.sessions() as session:
            landed = session.scalar(_LANDED, {"key": segment.storage_key})
        assert landed == len(segment.rows), "a finished row was computed again"

    def _put_segment(
        self, lease: ShardLease, rows: Sequence[tuple[int, str | None]]
    ) -> SegmentDraft:
        data, placed = b"", list[Row]()
        for index, custom_id in rows:
            line = answered_line(lease, index, custom_id)
            placed.append(Row(index, True, len(data), len(line)))
            data += line
        name = f"{lease.shard_id}-{lease.attempt}-{uuid.uuid4().hex[:8]}"
        key = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/out/{name}.jsonl"
        self.storage.put(key, data)
        return SegmentDraft(key, len(data), hashlib.sha256(data).hexdigest(), placed)

    def hand_one_back(self) -> None:
        for held in list(self.runs)[:1]:
            self._hand_back(held)

    def _hand_back(self, held: Held) -> None:
        self.runs.pop(held, None)
        self._return_to_line(held)

    def _return_to_line(self, held: Held) -> None:
        with self.sessions.begin() as session:
            if leases.hand_back(session, held, self.me, after=_NO_TIME):
                attempt = session.scalar(_ATTEMPT, {"id": held.shard_id})
                assert attempt == held.attempt, "a zombie gave up what another holds"
