"""A file that S3 has put together wrongly is not published."""

import hashlib

import pytest
from sqlalchemy import text

from jobs.multipart import PART_SIZE
from jobs.results import Row, SegmentDraft
from jobs.settings import StorageSettings
from jobs.storage import Storage
from tests.fixtures.changing_proxy import changed, without_first_part
from tests.fixtures.work import Work
from tests.fixtures.workers import control_hands
from worker.control.finalizer import Finalizer
from worker.control.leased_jobs import GivenUp

LINE = b'{"custom_id":"r0","text":"' + b"x" * (PART_SIZE + 10) + b'"}\n'  # two parts


def large_batch(work: Work, storage: Storage) -> None:
    job_id = work.add_planned_batch([1])
    (lease,) = work.claim(work.add_worker())
    storage.put("segment", LINE)
    sha256 = hashlib.sha256(LINE).hexdigest()
    rows = [Row(0, True, 0, len(LINE))]
    work.flush(lease, SegmentDraft("segment", len(LINE), sha256, rows), complete=True)
    assert work.open_shards(job_id) == 0


def output_keys(work: Work) -> list[str]:
    with work.sessions() as session:
        query = text("SELECT storage_key FROM files WHERE purpose = 'batch_output'")
        return list(session.scalars(query))


def make_due(work: Work) -> None:
    """What failed waits for a while before it is tried again."""
    with work.sessions.begin() as session:
        session.execute(text("UPDATE jobs SET not_before = now()"))


@pytest.mark.law("P23")
def test_a_batch_whose_file_lost_a_part_does_not_end_until_it_is_written_whole(
    work: Work, storage: Storage, storage_settings: StorageSettings
) -> None:
    large_batch(work, storage)
    hands = control_hands(work)

    with changed(storage_settings, asked=without_first_part) as settings:
        losing = Finalizer(work.sessions, Storage(settings), hands)
        with pytest.raises(GivenUp, match="were sent"):
            losing.finalize_next()
    state, files = work.scalar("SELECT state FROM jobs"), output_keys(work)
    make_due(work)
    assert Finalizer(work.sessions, storage, hands).finalize_next()

    assert (state, files) == ("finalizing", [])
    assert work.scalar("SELECT state FROM jobs") == "completed"
    assert [storage.read(key) for key in output_keys(work)] == [LINE]
