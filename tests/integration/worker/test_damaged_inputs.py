"""Of an input that the store lost, cut short or changed nothing is run: a batch whose file it is
fails, a shard waits, and after an hour its rows are named and the batch ends."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from jobs import earlier
from jobs.leases import ShardLease
from tests.fixtures.passing_time import pass_time
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.until import until
from tests.fixtures.work import Work
from tests.fixtures.workers import control_hands
from tests.integration.worker.bench import Bench
from worker.control.finalizer import Finalizer

Damage = Callable[[bytes], bytes]
LetGo = Callable[[Work, ShardLease], None]

A_SHARD_OF_ITS_OWN = 200_000  # tokens
AN_OBJECT_OF_ITS_OWN = "hi" * 300_000


def without_its_last_line(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:-1])


def with_another_question(data: bytes) -> bytes:
    return re.sub(rb'("content": ?)"hi', rb'\1"hj', data, count=1)


def lets_go(work: Work, lease: ShardLease) -> None:
    assert work.hand_back(lease)


def dies(work: Work, lease: ShardLease) -> None:
    work.kill(lease.owner)
    assert work.rescue().died == 1


DAMAGES = [without_its_last_line, with_another_question, None]


def look(work: Work, bench: Bench) -> None:
    """A fresh worker claims what is due, and lets go of it."""
    bench.me = work.add_worker()
    while work.scalar("SELECT min(id) FROM shards WHERE state = 'queued' AND not_before <= now()"):
        bench.pump.claim_more()
        assert until(lambda: not work.scalar("SELECT min(id) FROM shards WHERE state = 'leased'"))


def finalize(work: Work, pipeline: Pipeline) -> None:
    """By a process that is alive, whatever time has passed."""
    assert Finalizer(work.sessions, pipeline.storage, control_hands(work)).finalize_next()


def last_input(work: Work) -> str:
    return str(work.scalar("SELECT input_key FROM shards ORDER BY id DESC LIMIT 1"))


def ruin(pipeline: Pipeline, key: str, damage: Damage | None) -> None:
    """None: the object is gone."""
    if damage is None:
        pipeline.storage.delete([key])
    else:
        pipeline.storage.put(key, damage(pipeline.storage.read(key)))


@pytest.mark.law("P23")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_shard_whose_input_is_damaged_is_not_run_until_it_is_whole(
    work: Work, pipeline: Pipeline, bench: Bench, damage: Damage | None
) -> None:
    job_id = pipeline.submit(input_line("a") + b"\n" + input_line("b"))
    pipeline.plan()
    whole = pipeline.storage.read(last_input(work))
    ruin(pipeline, last_input(work), damage)

    look(work, bench)
    meanwhile = list(bench.begun), work.shard_states(job_id)
    pipeline.storage.put(last_input(work), whole)
    pass_time(work.sessions, timedelta(minutes=2))
    look(work, bench)
    finalize(work, pipeline)

    assert meanwhile == ([], ["queued"])
    assert work.job_state(job_id) == "completed"
    assert [line["custom_id"] for line in pipeline.output(job_id)] == ["a", "b"]


@pytest.mark.law("P23")
@pytest.mark.parametrize("damage", DAMAGES)
def test_requests_that_stay_lost_for_an_hour_are_named_and_the_batch_ends(
    work: Work, pipeline: Pipeline, bench: Bench, damage: Damage | None
) -> None:
    lines = [
        input_line(name, AN_OBJECT_OF_ITS_OWN, max_tokens=A_SHARD_OF_ITS_OWN) for name in ("a", "b")
    ]
    job_id = pipeline.submit(b"\n".join(lines))
    pipeline.plan()
    ruin(pipeline, last_input(work), damage)
    look(work, bench)
    pass_time(work.sessions, timedelta(hours=1, minutes=2))

    look(work, bench)
    finalize(work, pipeline)

    job = pipeline.job(job_id)
    with work.sessions() as session:
        to_retry = earlier.rows_to_retry(session, job_id, first=0, last=1)
    assert (job.state, job.total, job.completed, job.failed) == ("completed", 2, 1, 1)
    assert [line["custom_id"] for line in pipeline.output(job_id)] == ["a"]
    (error,) = pipeline.errors(job_id)
    assert (error["custom_id"], error["error"]["code"]) == ("b", "result_lost")
    assert to_retry == {1}


@pytest.mark.parametrize("let_go", [lets_go, dies])
def test_a_shard_that_was_whole_meanwhile_has_an_hour_again(
    work: Work, pipeline: Pipeline, bench: Bench, let_go: LetGo
) -> None:
    job_id = pipeline.submit(input_line("a"))
    pipeline.plan()
    whole = pipeline.storage.read(last_input(work))
    ruin(pipeline, last_input(work), None)
    look(work, bench)
    pipeline.storage.put(last_input(work), whole)
    pass_time(work.sessions, timedelta(minutes=2))
    (begun,) = work.claim(work.add_worker())
    let_go(work, begun)
    pass_time(work.sessions, timedelta(hours=2))
    ruin(pipeline, last_input(work), None)

    look(work, bench)

    assert work.shard_states(job_id) == ["queued"]


def test_a_shard_of_a_cancelled_batch_whose_input_is_damaged_is_cancelled(
    work: Work, pipeline: Pipeline, bench: Bench
) -> None:
    job_id = pipeline.submit(input_line("a"))
    pipeline.plan()
    ruin(pipeline, last_input(work), None)
    (lease,) = work.claim(work.add_worker())
    work.cancel(job_id)

    bench.custody.set_aside(lease)

    assert work.shard_states(job_id) == ["cancelled"]


@pytest.mark.law("P23")
@pytest.mark.parametrize("damage", [without_its_last_line, with_another_question])
def test_a_file_that_the_store_changed_fails_its_batch(
    work: Work, pipeline: Pipeline, damage: Damage
) -> None:
    job_id = pipeline.submit(input_line("a") + b"\n" + input_line("b"))
    ruin(pipeline, str(work.scalar("SELECT storage_key FROM files")), damage)

    pipeline.plan()

    assert work.job_state(job_id) == "failed"
    assert work.scalar("SELECT errors->0->>'code' FROM jobs") == "file_changed"
