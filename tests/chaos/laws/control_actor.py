"""A control process whose loops are called one by one.

It is the real planner, finalizer, rescuer and sweeper; only webhooks are recorded and not sent.
What it has begun it may go on with long after another has taken it over.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text

from jobs import deliveries, finishing, planning, workers
from jobs.database import Sessions
from jobs.deliveries import DeliveryLease, Outcome
from jobs.doorbell import Doorbell
from jobs.finishing import FinalizeLease
from jobs.job_leases import JobLease
from jobs.models import WorkerKind
from jobs.planning import PlanLease
from jobs.secrets import Secrets
from jobs.storage import Storage
from jobs.workers import Identity
from worker.control.finalizer import Finalizer
from worker.control.hands import Hands
from worker.control.planner import Planner
from worker.control.rescuer import Rescuer
from worker.control.sweeper import Sweeper

TTL = timedelta(minutes=20)
_LOOK = text("""
    SELECT owner, attempt, state, total, output_file_id, error_file_id,
           (SELECT count(*) FROM shards WHERE job_id = :id),
           (SELECT count(*) FROM requests WHERE job_id = :id)
      FROM jobs WHERE id = :id
""")


@dataclass(slots=True)
class ControlActor:
    sessions: Sessions
    storage: Storage
    doorbell: Doorbell
    secrets: Secrets
    me: UUID = field(default_factory=uuid.uuid4)
    last: UUID | None = None
    alive: bool = False
    plans: list[PlanLease] = field(default_factory=list)
    finals: list[FinalizeLease] = field(default_factory=list)
    calls: list[DeliveryLease] = field(default_factory=list)
    hands: Hands = field(init=False)
    planner: Planner = field(init=False)
    finalizer: Finalizer = field(init=False)
    rescuer: Rescuer = field(init=False)
    sweeper: Sweeper = field(init=False)

    def __post_init__(self) -> None:
        self.hands = Hands(self.sessions, me=lambda: self.me)
        self.planner = Planner(
            self.sessions, self.storage, self.doorbell, secrets=self.secrets, hands=self.hands
        )
        self.finalizer = Finalizer(self.sessions, self.storage, self.hands)
        self.rescuer = Rescuer(self.sessions, ttl=TTL)
        self.sweeper = Sweeper(self.sessions, self.storage, self.doorbell)

    def beat(self) -> None:
        if self.alive:
            with self.sessions.begin() as session:
                self.alive = workers.beat(session, self.me, ttl=TTL, progress=0, stats={})
            if self.alive:
                self.hands.let_go_strays()
                return
            self.last, self.me = self.me, uuid.uuid4()
        self._register()

    def _register(self) -> None:
        me = uuid.uuid4()
        with self.sessions.begin() as session:
            if self.last is not None:
                workers.retire(session, self.last)
            workers.register(session, Identity(me, WorkerKind.CONTROL, None, "host", 1), ttl=TTL)
        self.me, self.alive, self.last = me, True, None

    def plan(self) -> bool:
        return self.planner.plan_next() or self.planner.plan_next(careful=True)

    def finalize(self) -> bool:
        return self.finalizer.finalize_next() or self.finalizer.finalize_next(careful=True)

    def rescue(self) -> None:
        self.rescuer.rescue()

    def sweep(self) -> None:
        self.sweeper.sweep()

    def begin_plan(self) -> None:
        with self.sessions.begin() as session:
            lease = planning.claim(session, self.me) or planning.claim(
                session, self.me, careful=True
            )
        self.plans += [lease] if lease else []

    def go_on_planning(self) -> None:
        if self.plans:
            lease = self.plans.pop()
            with self._working_on(lease):
                self.planner.plan_leased(lease)

    def begin_final(self) -> None:
        with self.sessions.begin() as session:
            lease = finishing.begin(session, self.me) or finishing.begin(
                session, self.me, careful=True
            )
        self.finals += [lease] if lease else []

    def go_on_finalizing(self) -> None:
        if self.finals:
            lease = self.finals.pop()
            with self._working_on(lease):
                self.finalizer.finalize_leased(lease)

    @contextmanager
    def _working_on(self, lease: JobLease) -> Iterator[None]:
        """Law 4: a lease that has passed on changes nothing of its job."""
        with self.hands.holding(lease.job_id, lease.attempt):
            before = self._look_at(lease)
            yield
        if before[:2] != (lease.owner, lease.attempt):
            assert self._look_at(lease) == before, "a zombie changed a job"

    def _look_at(self, lease: JobLease) -> tuple[Any, ...]:
        with self.sessions() as session:
            return tuple(session.execute(_LOOK, {"id": lease.job_id}).one())

    def go_on_with_all(self) -> None:
        while self.plans:
            self.go_on_planning()
        while self.finals:
            self.go_on_finalizing()

    def begin_call(self) -> None:
        with self.sessions.begin() as session:
            lease = deliveries.claim(session, self.me)
        self.calls += [lease] if lease else []

    def end_call_well(self) -> None:
        self._end_call(200)

    def end_call_badly(self) -> None:
        self._end_call(503)

    def _end_call(self, status: int) -> None:
        if self.calls:
            lease = self.calls.pop()
            with self.sessions.begin() as session:
                deliveries.record(session, lease, Outcome(status, None))
