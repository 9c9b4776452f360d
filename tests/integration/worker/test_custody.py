"""What a worker lets go of it computes no more, whatever is under way."""

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import text

from jobs.doorbell import Doorbell
from jobs.endings import Endings
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.scripted_engine import ScriptedEngine
from tests.fixtures.until import until
from tests.fixtures.work import Work
from tests.fixtures.workers import die
from worker.inference.custody import Custody
from worker.inference.engine_host import EngineHost
from worker.inference.held_shards import HeldShards
from worker.inference.holder import InferenceHolder
from worker.inference.result_writer import ResultWriter
from worker.inference.shard_runner import ShardRunner
from worker.threads import Crew

WAITING = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class Bench:
    """The parts of a worker that hold, compute and let go."""

    def __init__(self, pipeline: Pipeline, broker_url: str) -> None:
        sessions, storage = pipeline.work.sessions, pipeline.storage
        self.begun = list[str]()
        self.engine = ScriptedEngine(self.begun.append)
        self.held = HeldShards(limit=self.engine.room())
        self.host = EngineHost(self.engine, is_held=self.held.is_held, die=die)
        self.crew = Crew(1, name="writer", die=die)
        self._bells = Doorbell(broker_url), Endings(broker_url)
        writer = ResultWriter(sessions, storage, self.crew)
        self.custody = Custody(
            sessions,
            self.held,
            host=self.host,
            writer=writer,
            doorbell=self._bells[0],
            endings=self._bells[1],
        )
        self.runner = ShardRunner(
            sessions,
            storage,
            host=self.host,
            writer=writer,
            custody=self.custody,
            secrets=pipeline.work.secrets,
        )
        self.holder = InferenceHolder(
            self.held,
            host=self.host,
            custody=self.custody,
            hands=self.crew,
            hang_after=timedelta(minutes=10),
        )
        self.host.start()

    def hold_up(self, gate: threading.Event) -> None:
        """Let whatever the crew is to do wait for the gate."""

        def wait() -> None:
            gate.wait()

        self.crew.submit(wait)

    def stop(self) -> None:
        self.host.stop()
        self.crew.stop()
        for bell in self._bells:
            bell.close()


@pytest.fixture
def bench(pipeline: Pipeline, broker_url: str) -> Iterator[Bench]:
    bench = Bench(pipeline, broker_url)
    yield bench
    bench.stop()


@pytest.mark.law("P2")
def test_a_shard_that_is_handed_back_while_it_is_started_is_not_computed(
    work: Work, pipeline: Pipeline, bench: Bench
) -> None:
    job_id = pipeline.submit(input_line("a", "slow 600") + b"\n")
    pipeline.plan()
    (lease,) = work.claim(work.add_worker())
    bench.held.add(lease)
    handing_back = threading.Thread(target=bench.custody.hand_back, args=[lease])
    lock = text("SELECT 1 FROM jobs WHERE id = :id FOR UPDATE")

    with work.sessions.begin() as session:
        session.execute(lock, {"id": job_id})
        handing_back.start()
        assert until(lambda: work.scalar(WAITING) == 1)  # and so it has told the engine already
        bench.runner.start(lease)
    handing_back.join()

    assert until(lambda: bench.host.room() == bench.host.capacity)  # its inbox is read
    assert (bench.begun, bench.engine.has_work) == ([], False)
    assert work.shard_states(job_id) == ["queued"]


def test_a_shard_that_is_to_stop_is_computed_no_more_though_another_is_being_flushed(
    work: Work, pipeline: Pipeline, bench: Bench
) -> None:
    pipeline.submit(input_line("a", "slow 600") + b"\n")
    pipeline.plan()
    (lease,) = work.claim(work.add_worker())
    bench.held.add(lease)
    bench.runner.start(lease)
    assert until(lambda: bench.begun)
    flushed = threading.Event()
    bench.hold_up(flushed)

    bench.holder.stop([lease.held])

    assert until(lambda: not bench.engine.has_work)
    flushed.set()
