"""What waits is done, whatever becomes of the rest."""

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import job_leases, planning, rescue, waiting, workers
from jobs.doorbell import Doorbell
from jobs.job_leases import JobLease
from jobs.models import WorkerKind
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.until import until
from tests.fixtures.work import Work
from tests.fixtures.workers import die_leasing
from worker.control.tasks import Desk

MANY = 25


def nothing() -> bool:
    return False


def something() -> bool:
    return True


def wants_care(work: Work) -> bool:
    with work.sessions() as session:
        return waiting.for_care(session)


@pytest.fixture
def desk(pipeline: Pipeline, broker_url: str) -> Desk:
    plan, finalize = pipeline.planner.plan_next, pipeline.finalizer.finalize_next
    return Desk(
        Doorbell(broker_url),
        plan=plan,
        finalize=finalize,
        wants_care=partial(wants_care, pipeline.work),
        careful=partial(plan, careful=True),
        deliver=nothing,
    )


def states(work: Work, jobs: list[UUID]) -> set[object]:
    return {work.job_state(job_id) for job_id in jobs}


def test_many_batches_without_their_files_fail_and_another_completes(
    work: Work, pipeline: Pipeline, desk: Desk
) -> None:
    fileless = [work.add_batch("no such object") for _ in range(MANY)]
    good = pipeline.submit(input_line("a"))

    desk.work()
    pipeline.run()
    desk.work()

    assert work.job_state(good) == "completed"
    assert states(work, fileless) == {"failed"}
    codes = "SELECT DISTINCT errors->0->>'code' FROM jobs WHERE state = 'failed'"
    assert work.scalar(codes) == "file_unavailable"


def test_many_batches_that_cannot_be_planned_now_wait_and_another_completes(
    work: Work, pipeline: Pipeline, desk: Desk
) -> None:
    waiting = [work.add_batch("in.jsonl") for _ in range(MANY)]
    with work.sessions.begin() as session:
        session.execute(text("UPDATE files SET bucket = 'no such name', etag = 'x'"))
    good = pipeline.submit(input_line("a"))

    desk.work()
    pipeline.run()
    desk.work()

    assert work.job_state(good) == "completed"
    assert states(work, waiting) == {"validating"}


def test_a_step_that_fails_keeps_no_other_from_its_turn(broker_url: str) -> None:
    turns = list[str]()

    def broken() -> bool:
        turns.append("plan")
        raise RuntimeError("Postgres is away")

    def finalize() -> bool:
        turns.append("finalize")
        return False

    def deliver() -> bool:
        turns.append("deliver")
        return False

    Desk(
        Doorbell(broker_url),
        plan=broken,
        finalize=finalize,
        wants_care=nothing,
        careful=nothing,
        deliver=deliver,
    ).work()

    assert turns == ["plan", "finalize", "deliver"]


def test_beside_a_job_that_wants_care_no_other_is_planned_or_finalized(broker_url: str) -> None:
    meanwhile = list[str]()

    def note(step: str) -> bool:
        meanwhile.append(step)
        return False

    def careful() -> bool:
        meanwhile.clear()
        crowded.work()  # as on another thread, but when this one is surely at it
        meanwhile.append("careful")
        return False

    crowded = Desk(
        Doorbell(broker_url),
        plan=partial(note, "plan"),
        finalize=partial(note, "finalize"),
        wants_care=something,
        careful=careful,
        deliver=partial(note, "deliver"),
    )
    crowded.work()

    assert meanwhile == ["deliver", "careful", "deliver"]


class Caring:
    """A desk that plans until it is let, and on another thread wants to do something with care."""

    def __init__(self, broker_url: str) -> None:
        self.turns = list[str]()
        self.planned = threading.Event()
        self._planning = threading.Event()
        self.desk = Desk(
            Doorbell(broker_url),
            plan=self._plan,
            finalize=partial(self._note, "finalize"),
            wants_care=lambda: threading.current_thread() is self._caring,
            careful=partial(self._note, "careful"),
            deliver=nothing,
        )
        self._busy, self._caring = (threading.Thread(target=self.desk.work) for _ in range(2))

    def _plan(self) -> bool:
        self._planning.set()
        self.planned.wait()
        return False

    def _note(self, step: str) -> bool:
        self.turns.append(step)
        return False

    def start(self) -> bool:
        """Whether what wants care keeps all others from the gate that is open."""
        self._busy.start()
        self._planning.wait()
        self._caring.start()
        return until(self._others_wait)

    def _others_wait(self) -> bool:
        self.turns.clear()
        self.desk.work()
        return self.turns == []

    def end(self) -> None:
        self.planned.set()
        self._busy.join()
        self._caring.join()


def test_what_wants_care_is_not_passed_over_for_as_long_as_there_is_other_work(
    broker_url: str,
) -> None:
    caring = Caring(broker_url)

    waited = caring.start()  # they would keep the one gate closed while the other opens
    caring.end()

    assert waited
    assert "careful" in caring.turns


def test_what_waits_to_be_done_with_care_is_not_begun_once_the_desk_is_closed(
    broker_url: str,
) -> None:
    caring = Caring(broker_url)

    waited = caring.start()
    caring.desk.close()
    caring.end()

    assert waited
    assert caring.turns == []


def test_a_batch_that_kills_its_planners_waits_longer_each_time_and_then_fails(
    work: Work, pipeline: Pipeline, desk: Desk
) -> None:
    killer, waits = pipeline.submit(input_line("a")), list[int]()
    waited = "SELECT round(extract(epoch FROM not_before - now()))::int FROM jobs"
    for death in range(6):
        die_leasing(work, partial(planning.claim, careful=death >= 2))
        desk.work()  # it is not due
        waits.append(int(str(work.scalar(waited))))
        make_due(work, killer)

    desk.work()

    assert waits == [1, 2, 4, 8, 16, 32]
    assert work.job_state(killer) == "failed"
    assert work.scalar("SELECT errors->0->>'code' FROM jobs") == "planner_lost"


def test_a_batch_whose_planners_resigned_is_planned_as_ever(
    work: Work, pipeline: Pipeline, desk: Desk
) -> None:
    job_id = pipeline.submit(input_line("a"))
    for _ in range(6):
        me = work.add_worker(kind=WorkerKind.CONTROL)
        work.claim_plan(me)
        with work.sessions.begin() as session:
            workers.retire(session, me)
        with work.sessions.begin() as session:
            rescue.release_jobs(session, backoff=timedelta(seconds=1))

    desk.work()

    assert work.job_state(job_id) == "in_progress"


def make_due(work: Work, job_id: UUID) -> None:
    due = text("UPDATE jobs SET not_before = now() WHERE id = :id")
    with work.sessions.begin() as session:
        session.execute(due, {"id": job_id})


@pytest.mark.parametrize("step", ["plan", "finalize"])
def test_a_batch_that_was_given_up_is_tried_again_behind_those_that_came_meanwhile(
    work: Work, step: str
) -> None:
    add: Callable[[], UUID] = work.add_batch if step == "plan" else work.add_settled_batch
    claim: Callable[[UUID], JobLease] = work.claim_plan if step == "plan" else work.begin_finalizing
    me = work.add_worker(kind=WorkerKind.CONTROL)
    failing = add()
    with work.sessions.begin() as session:
        job_leases.release(session, claim(me))
    fresh = add()
    make_due(work, failing)

    claimed = [claim(me).job_id for _ in range(2)]

    assert claimed == [fresh, failing]
