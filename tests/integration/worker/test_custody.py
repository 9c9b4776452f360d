"""What a worker lets go of it computes no more, whatever is under way."""

import threading

import pytest
from sqlalchemy import text

from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.until import until
from tests.fixtures.work import Work
from tests.integration.worker.bench import Bench


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
        assert until(work.waits_for_lock)  # and so it has told the engine already
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
