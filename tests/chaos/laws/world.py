"""The world of the actors: clients, time, lightning, and how it is all brought to its end."""

import hashlib
from datetime import timedelta
from uuid import UUID

import orjson
from sqlalchemy import Engine, event, text

from jobs import control, finishing
from jobs.control import Change
from jobs.database import sessions_of
from jobs.doorbell import Doorbell
from jobs.errors import NotAllowedNow
from jobs.models import File, Job, JobKind, JobState
from jobs.secrets import Secrets
from jobs.storage import Storage
from tests.chaos.laws.control_actor import ControlActor
from tests.chaos.laws.inference_actor import InferenceActor
from tests.chaos.laws.lightning import Lightning
from tests.chaos.laws.witness import Witness
from tests.fixtures.passing_time import pass_time
from tests.fixtures.pipeline import input_line
from tests.fixtures.work import Work, custom_ids

_EMPTY = text("""
    TRUNCATE jobs, workers, files, results, segments, roll_call, fair_queues, fair_shares CASCADE
""")
_OPEN = "SELECT count(*) FROM jobs WHERE finished_at IS NULL"
_ROUNDS = 60  # to the end, with healthy processes
_ROUND = timedelta(minutes=7)
_LONG, _BRIEF = timedelta(days=30), timedelta(hours=1)
_MOST_JOBS = 6  # of one game


class World:
    def __init__(
        self, struck: Engine, admin: Engine, storage: Storage, doorbell: Doorbell, secrets: Secrets
    ) -> None:
        """Only those who use the engine `struck` are."""
        sessions = sessions_of(struck)
        self.work = Work(sessions, secrets)
        self.storage = storage
        self.lightning = Lightning(struck, admin)
        self.witness = Witness(admin)
        event.listen(sessions, "after_commit", lambda _: self.witness.look())
        self._doorbell = doorbell
        self.workers = list[InferenceActor]()
        self.controls = list[ControlActor]()
        self.submitted = 0

    def begin(self) -> None:
        """One control process, and two workers with a batch each."""
        self.witness.forget()
        with self.work.sessions.begin() as session:
            session.execute(_EMPTY)
        self.workers, self.controls, self.submitted = [], [], 0
        self.hire_control()
        for _ in range(2):
            self.submit_batch(1)
            self.controls[0].plan()
        for _ in range(2):
            self.hire_worker()
            self.workers[-1].claim_and_start()

    def hire_worker(self) -> None:
        self.workers.append(InferenceActor(self.work.sessions, self.storage))
        self.workers[-1].beat()

    def hire_control(self) -> None:
        actor = ControlActor(self.work.sessions, self.storage, self._doorbell, self.work.secrets)
        self.controls.append(actor)
        actor.beat()

    def submit_batch(self, number: int) -> None:
        self._submit(2 * number + 2, expires_in=_LONG)

    def submit_short_lived_batch(self, number: int) -> None:
        self._submit(2 * number + 2, expires_in=_BRIEF)

    def submit_request(self, _number: int) -> None:
        self._ask(interactive=False)

    def submit_urgent_request(self, _number: int) -> None:
        self._ask(interactive=True)

    def _submit(self, rows: int, *, expires_in: timedelta) -> None:
        """A batch of one shard."""
        if self.submitted == _MOST_JOBS:
            return
        self.submitted += 1
        lines = [input_line(f"r{n}", f"row {n}") for n in range(rows)]
        key = f"in/{len(lines)}"
        self.storage.put(key, b"\n".join(lines) + b"\n")
        self.work.add_batch(key, expires_in=expires_in, webhook_url="https://example.com/hook")

    def _ask(self, *, interactive: bool) -> None:
        if self.submitted < _MOST_JOBS:
            self.submitted += 1
            self.work.add_request(interactive=interactive)

    def cancel(self, which: int) -> None:
        """One of the jobs that have not ended, if there is any."""
        waiting = self._open_jobs()
        if not waiting:
            return
        job_id, kind = waiting[which % len(waiting)]
        try:
            with self.work.sessions.begin() as session:
                finishing.cancel(session, tenant_id=self.work.tenant_id, job_id=job_id, kind=kind)
        except NotAllowedNow:
            pass  # it is finalizing

    def pause(self, which: int) -> None:
        self._pause(which, paused=True)

    def unpause(self, which: int) -> None:
        self._pause(which, paused=False)

    def _pause(self, which: int, *, paused: bool) -> None:
        batches = self._open_batches()
        if batches:
            self._set_paused(batches[which % len(batches)], paused=paused)

    def _set_paused(self, job_id: UUID, *, paused: bool) -> None:
        try:
            with self.work.sessions.begin() as session:
                control.change(
                    session,
                    tenant_id=self.work.tenant_id,
                    job_id=job_id,
                    wanted=Change(paused=paused),
                )
        except NotAllowedNow:
            pass  # it is ending

    def _open_batches(self) -> list[UUID]:
        return [job_id for job_id, kind in self._open_jobs() if kind is JobKind.BATCH]

    def _open_jobs(self) -> list[tuple[UUID, JobKind]]:
        query = text("SELECT id, kind FROM jobs WHERE finished_at IS NULL ORDER BY created_at, id")
        with self.work.sessions() as session:
            return [(row.id, JobKind(row.kind)) for row in session.execute(query)]

    def pass_time(self, by: timedelta) -> None:
        pass_time(self.work.sessions, by)

    def end(self) -> None:
        """All who acted are dead now.  Whatever they left, healthy processes bring it to its end,
        and the dead, when they come back, change nothing."""
        workers, controls = self.workers, self.controls
        self.workers, self.controls = [], []
        self.hire_worker()
        self.hire_control()
        for job_id in self._open_batches():
            self._set_paused(job_id, paused=False)
        for _ in range(_ROUNDS):
            if self.work.scalar(_OPEN) == 0:
                break
            self._round(workers, controls)
        assert self.work.scalar(_OPEN) == 0, "a job does not end"
        for ghost in workers:
            ghost.answer_all()
        self.witness.look()
        self._read_all_files()

    def _round(self, workers: list[InferenceActor], controls: list[ControlActor]) -> None:
        """Healthy processes do what there is; the dead meddle while they are at it."""
        (worker,), (control,) = self.workers, self.controls
        worker.beat()
        control.beat()
        control.rescue()
        control.sweep()
        control.begin_plan()
        control.begin_final()
        worker.claim_and_start()
        for ghost in workers:
            ghost.meddle_with({held.shard_id for held in worker.runs})
        for leader in controls:
            leader.go_on_with_all()
        control.go_on_with_all()
        worker.answer_all()
        self.pass_time(_ROUND)

    def _read_all_files(self) -> None:
        self._objects_are_what_rows_say()
        with self.work.sessions() as session:
            batches = [job for job in session.query(Job) if job.kind is JobKind.BATCH]
        for job in batches:
            if job.in_progress_at is not None:
                self._answers_every_request_once(job)

    def _objects_are_what_rows_say(self) -> None:
        """I3."""
        query = text("SELECT storage_key, bytes, sha256 FROM segments")
        with self.work.sessions() as session:
            for row in session.execute(query):
                content = self.storage.read(row.storage_key)
                found = (len(content), hashlib.sha256(content).hexdigest())
                assert found == (row.bytes, row.sha256), row.storage_key

    def _answers_every_request_once(self, job: Job) -> None:
        """I4, I5 and law 8."""
        output, errors = self._file(job.output_file_id), self._file(job.error_file_id)
        asked = self._asked(job)
        answered = custom_ids(output)
        never_ran = [orjson.loads(line) for line in errors.splitlines()]
        assert sorted(answered + [line["custom_id"] for line in never_ran]) == sorted(asked)
        assert answered == [name for name in asked if name in set(answered)], "out of order"
        stopped = sum(line["error"]["code"].startswith("batch_") for line in never_ran)
        assert (job.completed, job.failed) == (len(answered), len(never_ran) - stopped)
        assert stopped == 0 or job.state in (JobState.CANCELLED, JobState.EXPIRED)

    def _asked(self, job: Job) -> list[str]:
        key = self.work.scalar("SELECT storage_key FROM files WHERE id = :id", id=job.input_file_id)
        return [
            orjson.loads(line)["custom_id"] for line in self.storage.read(str(key)).splitlines()
        ]

    def _file(self, file_id: UUID | None) -> bytes:
        if file_id is None:
            return b""
        with self.work.sessions() as session:
            return self.storage.read(session.get_one(File, file_id).storage_key)
