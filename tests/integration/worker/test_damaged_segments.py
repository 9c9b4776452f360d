"""Of a segment that the store cut short or changed nothing is published: its batch waits, and ends
without those results if they do not come back."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from jobs import earlier
from jobs.errors import SegmentDamaged
from jobs.models import Job
from jobs.storage import Storage
from tests.fixtures.passing_time import pass_time
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.work import Work, custom_ids, segment_of
from tests.fixtures.workers import control_hands
from worker.control.finalizer import Finalizer
from worker.control.leased_jobs import GivenUp

Damage = Callable[[bytes], bytes]


def without_its_last_line(data: bytes) -> bytes:
    """As long as whole lines are: those of the next segment would follow without a seam."""
    return b"".join(data.splitlines(keepends=True)[:-1])


def without_its_last_byte(data: bytes) -> bytes:
    return data[:-1]


def with_a_flipped_byte(data: bytes) -> bytes:
    return data.replace(b'"yes"', b'"xes"', 1)


DAMAGES = [without_its_last_line, without_its_last_byte, with_a_flipped_byte]


def first_segment(work: Work) -> str:
    return str(work.scalar("SELECT storage_key FROM segments ORDER BY id LIMIT 1"))


def make_due(work: Work) -> None:
    """What failed waits for a while before it is tried again."""
    with work.sessions.begin() as session:
        session.execute(text("UPDATE jobs SET not_before = now()"))


def ruin(storage: Storage, key: str, damage: Damage | None) -> None:
    """None: the object is gone."""
    if damage is None:
        storage.delete([key])
    else:
        storage.put(key, damage(storage.read(key)))


def file_of(work: Work, storage: Storage, file_id: UUID | None) -> bytes:
    key = work.scalar("SELECT storage_key FROM files WHERE id = :id", id=file_id)
    return storage.read(str(key))


def batch_of_two_segments(work: Work, storage: Storage) -> UUID:
    job_id = work.add_planned_batch([4])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [0, 1], storage))
    work.flush(lease, segment_of(job_id, [2, 3], storage), complete=True)
    return job_id


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.law("P23")
def test_a_batch_with_a_damaged_segment_does_not_end_until_it_is_whole(
    work: Work, storage: Storage, damage: Damage
) -> None:
    batch_of_two_segments(work, storage)
    finalizer, key = Finalizer(work.sessions, storage, control_hands(work)), first_segment(work)
    whole = storage.read(key)
    storage.put(key, damage(whole))

    with pytest.raises(GivenUp, match=key) as given_up:
        finalizer.finalize_next()
    written = "SELECT count(*) FROM files WHERE purpose = 'batch_output'"
    meanwhile = work.scalar(f"SELECT ROW(state, owner, ({written}))::text FROM jobs")
    storage.put(key, whole)
    make_due(work)
    assert finalizer.finalize_next()

    assert isinstance(given_up.value.__cause__, SegmentDamaged)
    assert meanwhile == "(finalizing,,0)"
    assert work.scalar("SELECT state FROM jobs") == "completed"
    output = work.scalar("SELECT storage_key FROM files WHERE purpose = 'batch_output'")
    assert custom_ids(storage.read(str(output))) == ["r0", "r1", "r2", "r3"]


@pytest.mark.parametrize(
    "change", ["length = length + 1", "length = length - 1", "start = start + 1"]
)
def test_a_row_that_names_no_line_of_its_segment_is_not_published(
    work: Work, storage: Storage, change: str
) -> None:
    batch_of_two_segments(work, storage)
    with work.sessions.begin() as session:
        session.execute(text(f"UPDATE results SET {change} WHERE index = 1"))

    with pytest.raises(GivenUp, match="result row") as given_up:
        Finalizer(work.sessions, storage, control_hands(work)).finalize_next()

    assert isinstance(given_up.value.__cause__, SegmentDamaged)
    assert work.scalar("SELECT state FROM jobs") == "finalizing"


@pytest.mark.parametrize("damage", [*DAMAGES, None])
@pytest.mark.law("P23")
def test_results_that_stay_lost_for_an_hour_are_named_and_the_batch_ends(
    work: Work, storage: Storage, damage: Damage | None
) -> None:
    job_id = batch_of_two_segments(work, storage)
    key = first_segment(work)
    ruin(storage, key, damage)
    with pytest.raises(GivenUp, match=key):
        Finalizer(work.sessions, storage, control_hands(work)).finalize_next()
    pass_time(work.sessions, timedelta(hours=1, minutes=1))

    Finalizer(work.sessions, storage, control_hands(work)).finalize_next()

    with work.sessions() as session:
        job = session.get_one(Job, job_id)
        to_retry = earlier.rows_to_retry(session, job_id, first=0, last=3)
    assert (job.state, job.total, job.completed, job.failed) == ("completed", 4, 2, 2)
    errors = file_of(work, storage, job.error_file_id)
    assert custom_ids(file_of(work, storage, job.output_file_id)) == ["r2", "r3"]
    assert custom_ids(errors) == ["r0", "r1"]
    assert errors.count(b'"result_lost"') == 2
    assert to_retry == {0, 1}


def test_rows_that_no_shard_answered_are_named_after_an_hour_and_the_batch_ends(
    work: Work, storage: Storage
) -> None:
    """As where a shard's input was cut short."""
    job_id = work.add_planned_batch([4])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [0, 2], storage), complete=True)
    with pytest.raises(GivenUp, match="row 1 is not"):
        Finalizer(work.sessions, storage, control_hands(work)).finalize_next()
    pass_time(work.sessions, timedelta(hours=1, minutes=1))

    Finalizer(work.sessions, storage, control_hands(work)).finalize_next()

    with work.sessions() as session:
        job = session.get_one(Job, job_id)
        to_retry = earlier.rows_to_retry(session, job_id, first=0, last=3)
    assert (job.state, job.completed, job.failed) == ("completed", 2, 2)
    assert custom_ids(file_of(work, storage, job.error_file_id)) == ["r1", "r3"]
    assert to_retry == {1, 3}


def test_no_result_is_said_to_be_lost_while_s3_does_not_answer(
    work: Work, storage: Storage
) -> None:
    batch_of_two_segments(work, storage)
    elsewhere = storage.within("no-such-bucket")
    with pytest.raises(GivenUp):
        Finalizer(work.sessions, elsewhere, control_hands(work)).finalize_next()
    pass_time(work.sessions, timedelta(hours=1, minutes=1))

    with pytest.raises(GivenUp):
        Finalizer(work.sessions, elsewhere, control_hands(work)).finalize_next()
    assert work.scalar("SELECT damaged_since IS NULL FROM jobs")
    make_due(work)
    Finalizer(work.sessions, storage, control_hands(work)).finalize_next()

    assert work.scalar("SELECT ROW(state, completed, failed)::text FROM jobs") == "(completed,4,0)"


@pytest.mark.parametrize("damage", [*DAMAGES, None])
def test_what_an_earlier_batch_has_lost_is_not_reused_and_runs_again(
    pipeline: Pipeline, damage: Damage | None
) -> None:
    content = input_line("a") + b"\n" + input_line("b") + b"\n"
    earlier_id = pipeline.submit(content)
    pipeline.plan()
    pipeline.run(1)
    pipeline.run()
    pipeline.finalize()
    ruin(pipeline.storage, first_segment(pipeline.work), damage)
    later = pipeline.submit(content, reuse_from=earlier_id)
    pipeline.ran.clear()

    pipeline.plan()
    pipeline.run()
    pipeline.finalize()

    assert pipeline.ran == ["a"]
    assert [line["custom_id"] for line in pipeline.output(later)] == ["a", "b"]
