"""A shard is settled by its last row's flush, and by nothing that looks like it."""

import threading
from collections.abc import Iterator

import pytest

from jobs.storage import Storage
from tests.fixtures.work import Work
from tests.fixtures.workers import die
from worker.inference.result_writer import FLUSH_BYTES, FinishedRow, ResultWriter, ShardOutput
from worker.threads import Crew

DEADLINE = 20.0  # seconds
LARGE, SMALL = b"x" * FLUSH_BYTES + b"\n", b"y\n"


class Written:
    """A shard of two rows, whose writer's only thread waits until it is let go on."""

    def __init__(self, work: Work, storage: Storage) -> None:
        job_id = work.add_planned_batch([2])
        (self.lease,) = work.claim(work.add_worker())
        self.settled = threading.Event()
        self.results = f"SELECT count(*) FROM results WHERE job_id = '{job_id}'"
        self.gate = threading.Event()
        self._crew = Crew(1, name="writers", die=die)
        self._crew.submit(self._wait)
        self.writer = ResultWriter(work.sessions, storage, self._crew)
        self.output: ShardOutput = self.writer.open(
            self.lease,
            num_rows=2,
            on_settled=lambda *_: self.settled.set(),
            on_lost=lambda _: None,
        )

    def _wait(self) -> None:
        self.gate.wait()

    def stop(self) -> None:
        """Once what was begun is written."""
        self.gate.set()
        self._crew.stop()


@pytest.fixture
def written(work: Work, storage: Storage) -> Iterator[Written]:
    written = Written(work, storage)
    yield written
    written.stop()


@pytest.mark.law("I4")
def test_a_flush_that_a_hand_back_overtakes_does_not_settle_the_shard(
    work: Work, written: Written
) -> None:
    """It waits for a thread with the first row, the last row comes, and both are let go."""
    written.writer.add(written.output, FinishedRow(0, True, LARGE))
    written.writer.add(written.output, FinishedRow(1, True, SMALL))

    written.writer.drop(written.lease)
    written.stop()

    assert work.scalar("SELECT state FROM shards") == "leased"
    assert work.scalar(written.results) == 1
    assert not written.settled.is_set()


def test_rows_that_finish_during_a_flush_are_written_by_the_next_which_settles(
    work: Work, written: Written
) -> None:
    written.writer.add(written.output, FinishedRow(0, True, LARGE))
    written.writer.add(written.output, FinishedRow(1, True, SMALL))

    written.gate.set()

    assert written.settled.wait(DEADLINE)
    assert work.scalar(written.results) == 2
    assert work.scalar("SELECT state FROM shards") == "done"
