"""Laws 2 and 8: the files hold every row once, in input order, and twice the same bytes."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import text

from jobs import finishing, rescue
from jobs.models import Job, WorkerKind
from jobs.storage import Storage
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.work import NO_TIME, Work, custom_ids, segment_of
from tests.fixtures.workers import control_hands, die_leasing
from worker.control.finalizer import FilesDisagree, Finalizer
from worker.control.leased_jobs import GivenUp


@pytest.fixture
def finalizer(work: Work, storage: Storage) -> Finalizer:
    return Finalizer(work.sessions, storage, control_hands(work))


def files_of(work: Work, storage: Storage) -> tuple[bytes, bytes]:
    """The output and the error file of the only job; empty where there is none."""
    found = []
    for column in ("output_file_id", "error_file_id"):
        key = work.scalar(f"SELECT f.storage_key FROM jobs j JOIN files f ON f.id = j.{column}")
        found.append(storage.read(str(key)) if key else b"")
    return found[0], found[1]


def test_segments_become_files_in_input_order(
    work: Work, storage: Storage, finalizer: Finalizer
) -> None:
    job_id = work.add_planned_batch([6])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [4, 1], storage))
    work.flush(lease, segment_of(job_id, [5], storage, ok=False))
    work.flush(lease, segment_of(job_id, [3, 0, 2], storage), complete=True)

    assert finalizer.finalize_next()

    output, errors = files_of(work, storage)
    assert custom_ids(output) == ["r0", "r1", "r2", "r3", "r4"]
    assert custom_ids(errors) == ["r5"]
    assert work.job_state(job_id) == "completed"


@pytest.mark.law("P19")
def test_a_batch_whose_every_request_failed_is_completed_with_an_error_file_alone(
    work: Work, storage: Storage, finalizer: Finalizer
) -> None:
    job_id = work.add_planned_batch([3])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [0, 1, 2], storage, ok=False), complete=True)

    assert finalizer.finalize_next()

    output, errors = files_of(work, storage)
    with work.sessions() as session:
        job = session.get_one(Job, job_id)
    assert (job.state, job.total, job.completed, job.failed) == ("completed", 3, 0, 3)
    assert job.output_file_id is None
    assert output == b""
    assert custom_ids(errors) == ["r0", "r1", "r2"]


@pytest.mark.law("I12")
def test_two_finalizations_write_the_same_bytes(
    work: Work, storage: Storage, finalizer: Finalizer
) -> None:
    job_id = work.add_planned_batch([3, 3])
    for lease in work.claim(work.add_worker()):
        first = lease.shard_id % 2
        work.flush(lease, segment_of(job_id, [0, 1, 2] if first else [3, 4, 5], storage))
        work.flush(lease, segment_of(job_id, []), complete=True)
    finalizer.finalize_next()
    before = files_of(work, storage)

    _undo(work)
    finalizer.finalize_next()

    assert files_of(work, storage) == before
    assert custom_ids(before[0]) == [f"r{n}" for n in range(6)]


def test_a_finalizer_that_died_is_followed_by_another(
    work: Work, storage: Storage, finalizer: Finalizer
) -> None:
    job_id = work.add_settled_batch(2, storage=storage)
    dead = work.add_worker(kind=WorkerKind.CONTROL)
    work.begin_finalizing(dead)
    work.kill(dead)
    with work.sessions.begin() as session:
        rescue.release_jobs(session, backoff=NO_TIME)

    assert finalizer.finalize_next()

    assert work.job_state(job_id) == "completed"
    assert work.scalar("SELECT count(*) FROM events") == 1


def die_finalizing(work: Work, *, careful: bool) -> timedelta:
    """Returns how long the batch waits for its next finalizer; it need not, here."""
    die_leasing(work, partial(finishing.begin, careful=careful))
    with work.sessions.begin() as session:
        waits: timedelta = session.scalars(text("SELECT not_before - now() FROM jobs")).one()
        session.execute(text("UPDATE jobs SET not_before = now()"))
    return waits


def test_a_batch_that_kills_its_finalizers_for_a_week_ends_and_its_results_can_be_reused(
    pipeline: Pipeline,
) -> None:
    content = input_line("a")
    job_id = pipeline.submit(content)
    pipeline.plan()
    pipeline.run()
    waits = [die_finalizing(pipeline.work, careful=death >= 2) for death in range(180)]

    assert pipeline.finalizer.finalize_next(careful=True)
    job = pipeline.job(job_id)
    again = pipeline.submit(content, reuse_from=job_id)
    pipeline.plan()
    pipeline.finalize()

    assert timedelta(days=7) < sum(waits, timedelta()) < timedelta(days=8)
    assert (job.state, job.completed, job.failed) == ("failed", 1, 0)
    assert [error["code"] for error in job.errors or []] == ["finalizer_lost"]
    assert pipeline.work.scalar("SELECT min(type) FROM events") == "batch.completed"
    assert pipeline.work.scalar("SELECT max(type) FROM events") == "batch.failed"
    assert pipeline.ran == ["a"]
    assert [line["custom_id"] for line in pipeline.output(again)] == ["a"]


@pytest.mark.parametrize(
    ("stop", "code"), [("cancelled", "batch_cancelled"), ("expired", "batch_expired")]
)
def test_rows_that_never_ran_are_named_and_not_counted_as_failed(
    work: Work, storage: Storage, finalizer: Finalizer, stop: str, code: str
) -> None:
    job_id = work.add_planned_batch([4])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [2], storage))
    work.stop(job_id, stop)
    work.hand_back(lease)

    finalizer.finalize_next()

    output, errors = files_of(work, storage)
    assert custom_ids(output) == ["r2"]
    assert custom_ids(errors) == ["r0", "r1", "r3"]
    assert errors.count(code.encode()) == 3
    assert work.scalar("SELECT ROW(state, completed, failed)::text FROM jobs") == f"({stop},1,0)"


def test_a_cancelled_request_ends_without_files(
    work: Work, storage: Storage, finalizer: Finalizer
) -> None:
    job_id = work.add_request()
    work.cancel_request(job_id)

    finalizer.finalize_next()

    assert work.job_state(job_id) == "cancelled"
    assert files_of(work, storage) == (b"", b"")
    assert work.scalar("SELECT type FROM events") == "job.cancelled"


def test_files_expire_as_the_batch_asked_counted_from_their_own_creation(
    work: Work, storage: Storage, finalizer: Finalizer
) -> None:
    work.add_settled_batch(1, storage=storage)
    with work.sessions.begin() as session:
        session.execute(
            text("UPDATE jobs SET output_expires_after = 3600, created_at = now() - interval '1 d'")
        )

    finalizer.finalize_next()

    assert work.scalar(
        "SELECT expires_at = created_at + interval '1 hour' FROM files"
        " WHERE purpose = 'batch_output'"
    )


def test_files_go_to_the_tenants_own_bucket(
    work: Work, storage: Storage, finalizer: Finalizer, outside: Storage
) -> None:
    job_id = work.add_settled_batch(2, storage=storage)
    send_output_to(work, f"s3://{outside.bucket}/out/")

    finalizer.finalize_next()

    found = outside.find(f"out/batch_{job_id.hex}.output.jsonl")
    assert found is not None
    assert custom_ids(outside.read(found.key)) == ["r0", "r1"]
    with work.sessions() as session:
        query = "SELECT bucket, storage_key, etag, bytes FROM files WHERE purpose = 'batch_output'"
        row = session.execute(text(query)).one()
    assert tuple(row) == (outside.bucket, found.key, found.etag, found.size)


def test_a_bucket_that_cannot_be_written_does_not_hold_up_the_batch(
    work: Work, storage: Storage, finalizer: Finalizer
) -> None:
    job_id = work.add_settled_batch(2, storage=storage)
    send_output_to(work, "s3://No_Bucket/out/")

    finalizer.finalize_next()

    assert work.job_state(job_id) == "completed"
    assert custom_ids(files_of(work, storage)[0]) == ["r0", "r1"]


def send_output_to(work: Work, prefix: str) -> None:
    with work.sessions.begin() as session:
        session.execute(text("UPDATE jobs SET output_prefix = :prefix"), {"prefix": prefix})


def _lose_a_result(work: Work) -> None:
    with work.sessions.begin() as session:
        session.execute(text("DELETE FROM results WHERE index = 0"))


def _count_one_more(work: Work) -> None:
    with work.sessions.begin() as session:
        session.execute(text("UPDATE segments SET ok = ok + 1"))


def _add_a_request(work: Work) -> None:
    with work.sessions.begin() as session:
        session.execute(text("UPDATE jobs SET total = total + 1"))


@pytest.mark.parametrize("damage", [_lose_a_result, _count_one_more, _add_a_request])
@pytest.mark.law("P20")
def test_a_job_whose_counts_disagree_does_not_end(
    work: Work, storage: Storage, finalizer: Finalizer, damage: Callable[[Work], None]
) -> None:
    job_id = work.add_settled_batch(3, storage=storage)
    damage(work)

    with pytest.raises(GivenUp) as given_up:
        finalizer.finalize_next()

    assert isinstance(given_up.value.__cause__, FilesDisagree)
    assert work.job_state(job_id) == "finalizing"
    assert work.scalar("SELECT owner IS NULL FROM jobs")  # to be looked at, and tried again
    assert work.scalar("SELECT count(*) FROM events") == 0


def _undo(work: Work) -> None:
    """Put the job back to where a finalizer died after all of its writes but the last."""
    with work.sessions.begin() as session:
        session.execute(text("DELETE FROM events"))
        session.execute(
            text("""
                UPDATE jobs SET state = 'finalizing', finished_at = NULL,
                                output_file_id = NULL, error_file_id = NULL
            """)
        )
        session.execute(text("DELETE FROM files WHERE purpose = 'batch_output'"))
