"""Of a segment that the store cut short or changed nothing is published: its batch waits."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from jobs.errors import SegmentDamaged
from jobs.storage import Storage
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


def batch_of_two_segments(work: Work, storage: Storage) -> None:
    job_id = work.add_planned_batch([4])
    (lease,) = work.claim(work.add_worker())
    work.flush(lease, segment_of(job_id, [0, 1], storage))
    work.flush(lease, segment_of(job_id, [2, 3], storage), complete=True)


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


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_segment_of_an_earlier_batch_is_not_reused(
    pipeline: Pipeline, damage: Damage
) -> None:
    content = input_line("a") + b"\n" + input_line("b") + b"\n"
    earlier = pipeline.submit(content)
    pipeline.plan()
    pipeline.run()
    pipeline.finalize()
    key = first_segment(pipeline.work)
    whole = pipeline.storage.read(key)
    pipeline.storage.put(key, damage(whole))
    later = pipeline.submit(content, reuse_from=earlier)

    with pytest.raises(GivenUp, match=key) as given_up:
        pipeline.plan()
    meanwhile = pipeline.work.job_state(later)
    pipeline.storage.put(key, whole)
    make_due(pipeline.work)
    pipeline.plan()
    pipeline.finalize()

    assert isinstance(given_up.value.__cause__, SegmentDamaged)
    assert meanwhile == "validating"
    assert [line["custom_id"] for line in pipeline.output(later)] == ["a", "b"]
