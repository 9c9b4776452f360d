"""A batch says where it stands, why it waits and when it should be through."""

from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import reading
from jobs.models import JobKind
from jobs.queue_places import QueuePlace
from tests.fixtures.work import Work, segment_of


def place(work: Work, job_id: UUID) -> QueuePlace | None:
    with work.sessions() as session:
        view = reading.get_job(session, tenant_id=work.tenant_id, kind=JobKind.BATCH, job_id=job_id)
    return view.queue


def report_speed(work: Work, worker: UUID, tokens_per_second: int) -> None:
    half = tokens_per_second / 2
    statement = """
        UPDATE workers SET stats = jsonb_build_object(
            'output_tokens_per_second', CAST(:half AS float8),
            'prompt_tokens_per_second', CAST(:half AS float8)) WHERE incarnation = :worker
    """
    with work.sessions.begin() as session:
        session.execute(text(statement), {"half": half, "worker": worker})


def set_back(work: Work, job_id: UUID, seconds: int) -> None:
    """Let the batch have begun so long ago."""
    statement = """
        UPDATE jobs SET in_progress_at = now() - make_interval(secs => :s) WHERE id = :id
    """
    with work.sessions.begin() as session:
        session.execute(text(statement), {"s": seconds, "id": job_id})


def test_a_batch_in_line_counts_what_is_ahead_of_it_and_its_own(work: Work) -> None:
    work.add_planned_batch([1, 1], cost=100)
    job_id = work.add_planned_batch([1], cost=100)
    report_speed(work, work.add_worker(), 10)

    assert place(work, job_id) == QueuePlace(3, 30, "shards of this model that are ahead: 2")


def test_a_batch_without_a_worker_says_so(work: Work) -> None:
    found = place(work, work.add_planned_batch())

    assert found == QueuePlace(1, None, "no worker for the model tiny is alive")


def test_a_running_batch_is_judged_by_its_own_rate(work: Work) -> None:
    job_id = work.add_planned_batch([40])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, range(10)))
    set_back(work, job_id, 20)

    found = place(work, job_id)

    assert found is not None
    assert (found.position, found.reason) == (0, "running")
    assert found.eta_seconds == pytest.approx(60, abs=3)  # 10 rows in 20 s, and 30 to go


def test_a_running_batch_whose_worker_has_died_counts_no_seconds(work: Work) -> None:
    job_id = work.add_planned_batch([40])
    worker = work.add_worker()
    (lease,) = work.claim(worker)
    work.flush(lease, segment_of(job_id, range(10)))
    before = place(work, job_id)
    assert before is not None
    assert before.eta_seconds is not None

    work.kill(worker)

    assert place(work, job_id) == QueuePlace(0, None, "no worker for the model tiny is alive")


def test_a_batch_that_runs_and_waits_has_its_own_rate_and_a_place(work: Work) -> None:
    job_id = work.add_planned_batch([10, 10])
    (lease,) = work.claim(work.add_worker(), room=1)
    work.flush(lease, segment_of(job_id, range(10)))
    set_back(work, job_id, 10)

    found = place(work, job_id)

    assert found is not None
    assert (found.position, found.reason) == (1, "next in line")
    assert found.eta_seconds == pytest.approx(10, abs=2)


def test_a_batch_that_has_answered_nothing_yet_guesses_nothing(work: Work) -> None:
    job_id = work.add_planned_batch([10])
    work.claim(work.add_worker())

    assert place(work, job_id) == QueuePlace(0, None, "running")


def test_a_paused_batch_says_so_and_nobody_counts_it(work: Work) -> None:
    paused = work.add_planned_batch([1])
    behind = work.add_planned_batch([1])
    report_speed(work, work.add_worker(), 10)
    with work.sessions.begin() as session:
        for table in ("jobs", "shards"):
            column = "id" if table == "jobs" else "job_id"
            session.execute(
                text(f"UPDATE {table} SET paused = true WHERE {column} = :id"), {"id": paused}
            )

    first, second = place(work, paused), place(work, behind)

    assert first is not None
    assert first.reason == "paused"
    assert second is not None
    assert (second.position, second.reason) == (1, "next in line")


def test_an_ended_batch_is_in_no_line(work: Work) -> None:
    job_id = work.add_planned_batch()
    work.cancel(job_id)

    assert place(work, job_id) is None
