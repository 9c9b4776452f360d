"""A deleted batch is gone at once for its owner, and bit by bit for Postgres and S3."""

from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import deletion, finishing, reading
from jobs.errors import NotAllowedNow, NotFound
from jobs.models import JobKind
from jobs.paging import Cursor
from jobs.storage import Storage
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.work import Work
from worker.control import purge as purge_module
from worker.control.purge import purge

EMPTY = ("results", "requests", "segments", "shards", "events", "deliveries")


def delete(work: Work, job_id: UUID) -> None:
    with work.sessions.begin() as session:
        deletion.delete(session, tenant_id=work.tenant_id, job_id=job_id)


@pytest.fixture
def ended(pipeline: Pipeline) -> UUID:
    content = b"".join(input_line(f"r{n}") + b"\n" for n in range(5))
    job_id = pipeline.submit(content, webhook_url="https://example.com/")
    pipeline.plan()
    pipeline.run()
    pipeline.finalize()
    return job_id


def objects(pipeline: Pipeline, job_id: UUID) -> list[str]:
    prefix = f"t/{pipeline.work.tenant_id.hex}/b/{job_id.hex}/"
    return [found.key for found in pipeline.storage.objects(prefix)]


def test_everything_of_the_batch_goes_and_its_input_stays(pipeline: Pipeline, ended: UUID) -> None:
    assert objects(pipeline, ended) != []
    delete(pipeline.work, ended)

    purge(pipeline.work.sessions, pipeline.storage)

    assert objects(pipeline, ended) == []
    for table in EMPTY:
        assert pipeline.work.scalar(f"SELECT count(*) FROM {table}") == 0, table
    assert pipeline.work.scalar("SELECT count(*) FROM jobs WHERE purged_at IS NULL") == 0
    assert pipeline.work.scalar("SELECT webhook_url FROM jobs") is None
    kept = "SELECT purpose FROM files WHERE deleted_at IS NULL"
    assert pipeline.work.scalar(kept) == "batch"


def test_small_steps_come_to_the_same_end(
    pipeline: Pipeline, ended: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "STEP_ROWS", 1)
    monkeypatch.setattr(purge_module, "_STEP_OBJECTS", 1)
    delete(pipeline.work, ended)

    rounds = 0
    while pipeline.work.scalar("SELECT count(*) FROM jobs WHERE purged_at IS NULL"):
        purge(pipeline.work.sessions, pipeline.storage)
        rounds += 1

    assert rounds > 1
    assert objects(pipeline, ended) == []


def test_a_deleted_batch_is_gone_before_anything_is_swept(work: Work, storage: Storage) -> None:
    kept = work.add_settled_batch(storage=storage)
    job_id = work.add_settled_batch(storage=storage)
    _end(work)

    delete(work, job_id)

    with work.sessions() as session:
        with pytest.raises(NotFound):
            reading.get_job(session, tenant_id=work.tenant_id, kind=JobKind.BATCH, job_id=job_id)
        with pytest.raises(NotFound):
            finishing.cancel(session, tenant_id=work.tenant_id, job_id=job_id, kind=JobKind.BATCH)
    assert _page(work, after=None) == [kept]
    with pytest.raises(NotFound):
        delete(work, job_id)


def test_a_list_goes_on_behind_a_batch_that_has_been_taken_apart(
    work: Work, storage: Storage
) -> None:
    oldest, middle, newest = (work.add_settled_batch(storage=storage) for _ in range(3))
    _end(work)
    delete(work, middle)
    purge(work.sessions, storage)

    page = _page(work, after=middle)

    assert page == [oldest]
    assert _page(work, after=None) == [newest, oldest]


def test_a_month_later_nothing_is_left_of_it(work: Work, storage: Storage) -> None:
    job_id = work.add_settled_batch(storage=storage)
    _end(work)
    delete(work, job_id)
    purge(work.sessions, storage)
    purge(work.sessions, storage)
    assert work.scalar("SELECT count(*) FROM jobs") == 1

    with work.sessions.begin() as session:
        session.execute(text("UPDATE jobs SET purged_at = now() - interval '31 days'"))
    purge(work.sessions, storage)

    assert work.scalar("SELECT count(*) FROM jobs") == 0
    with pytest.raises(NotFound, match="start over"):
        _page(work, after=job_id)


def _page(work: Work, *, after: UUID | None) -> list[UUID]:
    cursor = Cursor(limit=10, after=after)
    with work.sessions() as session:
        page = reading.list_jobs(
            session, tenant_id=work.tenant_id, kind=JobKind.BATCH, cursor=cursor
        )
    return [view.job.id for view in page.views]


def test_what_has_not_ended_cannot_be_deleted(work: Work) -> None:
    job_id = work.add_planned_batch()

    with pytest.raises(NotAllowedNow, match="in_progress"):
        delete(work, job_id)


def test_a_batch_that_another_sweeper_takes_apart_is_left_to_it(
    pipeline: Pipeline, ended: UUID
) -> None:
    delete(pipeline.work, ended)
    with pipeline.work.sessions.begin() as other:
        other.execute(text("SELECT 1 FROM jobs FOR UPDATE"))

        purge(pipeline.work.sessions, pipeline.storage)

        assert pipeline.work.scalar("SELECT count(*) FROM results") == 5


def _end(work: Work) -> None:
    with work.sessions.begin() as session:
        session.execute(text("UPDATE jobs SET state = 'completed', finished_at = now()"))
