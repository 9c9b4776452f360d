from datetime import timedelta

from sqlalchemy import func

from jobs import overview
from jobs.database import Sessions
from jobs.models import JobState
from jobs.overview.queues import COUNTED_SHARDS
from jobs.overview.views import ModelQueue, Overview
from tests.integration.dashboard.scene import MODEL, TTL, Scene


def look(sessions: Sessions) -> Overview:
    return overview.take(sessions, beat_ttl=TTL)


def queue_of(seen: Overview, *, interactive: bool = False) -> ModelQueue:
    (queue,) = [
        queue for queue in seen.queues if queue.model == MODEL and queue.interactive is interactive
    ]
    return queue


def test_each_request_is_counted_once_as_waiting_claimed_or_running(sessions, scene: Scene):
    worker = scene.worker(stats={"running": 10})
    job = scene.batch(total=112)
    scene.shard(job, rows=64)
    scene.shard(job, rows=16)
    scene.shard(job, rows=32, owner=worker)

    queue = queue_of(look(sessions))

    assert (queue.waiting, queue.claimed, queue.running) == (80, 22, 10)
    assert queue.leases == 1
    assert queue.counted_all


def test_rows_that_a_held_shard_has_finished_are_counted_nowhere(sessions, scene: Scene):
    worker = scene.worker(stats={"running": 4})
    job = scene.batch(total=64)
    shard = scene.shard(job, rows=64, owner=worker)
    scene.segment(job, ok=40, failed=2, shard=shard)
    scene.segment(job, ok=10, shard=shard)

    queue = queue_of(look(sessions))

    assert (queue.waiting, queue.claimed, queue.running) == (0, 8, 4)


def test_a_workers_interactive_requests_are_the_first_to_count_as_running(sessions, scene: Scene):
    worker = scene.worker(stats={"running": 5})
    job = scene.batch(total=11)
    scene.shard(job, rows=8, owner=worker)
    scene.shard(job, rows=3, owner=worker, interactive=True)

    seen = look(sessions)

    interactive, bulk = queue_of(seen, interactive=True), queue_of(seen)
    assert (interactive.claimed, interactive.running) == (0, 3)
    assert (bulk.claimed, bulk.running) == (6, 2)


def test_a_dead_worker_runs_nothing_of_what_it_still_holds(sessions, scene: Scene):
    worker = scene.worker(stats={"running": 8}, silent_for=timedelta(seconds=5))
    scene.shard(scene.batch(total=8), rows=8, owner=worker)

    queue = queue_of(look(sessions))

    assert (queue.claimed, queue.running, queue.workers) == (8, 0, 0)


def test_the_oldest_waiting_shard_is_the_one_that_could_be_claimed_first(sessions, scene: Scene):
    job = scene.batch(total=3)
    scene.shard(job, rows=1, not_before=func.now() - timedelta(seconds=90))
    scene.shard(job, rows=1, not_before=func.now() - timedelta(seconds=5))
    scene.shard(job, rows=1, not_before=func.now() + timedelta(seconds=60), interactive=True)

    seen = look(sessions)

    oldest = queue_of(seen).oldest_seconds
    assert oldest is not None
    assert 90 <= oldest < 120
    assert queue_of(seen, interactive=True).oldest_seconds == 0  # it waits out a backoff


def test_where_nothing_waits_nothing_is_the_oldest(sessions, scene: Scene):
    scene.worker()

    assert queue_of(look(sessions)).oldest_seconds is None


def test_a_very_long_queue_is_counted_no_further_than_the_bound(sessions, scene: Scene):
    scene.shards(scene.batch(), count=COUNTED_SHARDS + 500)

    queue = queue_of(look(sessions))

    assert not queue.counted_all
    assert COUNTED_SHARDS <= queue.waiting < COUNTED_SHARDS + 500


def test_an_open_batch_sums_its_segments_and_a_finished_one_keeps_its_totals(
    sessions, scene: Scene
):
    running = scene.batch(total=40)
    scene.segment(running, ok=9, failed=1)
    scene.segment(running, ok=10)
    finished = scene.batch(state=JobState.COMPLETED, total=5, completed=3, failed=2)
    scene.segment(finished, ok=1)

    batches = {batch.id: batch for batch in look(sessions).batches}

    assert (batches[running].ok, batches[running].failed) == (19, 1)
    assert batches[running].progress == 0.5
    assert batches[running].prefix_hit_rate == 0.8
    assert batches[running].output_tokens == 200
    assert (batches[finished].ok, batches[finished].failed) == (3, 2)
    assert batches[finished].progress == 1.0


def test_what_is_left_is_judged_by_the_last_minute(sessions, scene: Scene):
    hour_ago = func.now() - timedelta(hours=1)
    at_work = scene.batch(total=100, in_progress_at=hour_ago)
    scene.segment(at_work, ok=25, failed=5)
    standing = scene.batch(total=100, in_progress_at=hour_ago, paused=True)

    batches = {batch.id: batch for batch in look(sessions).batches}

    assert (batches[at_work].rows_per_second, batches[at_work].eta_seconds) == (0.5, 140)
    assert (batches[standing].rows_per_second, batches[standing].eta_seconds) == (0, None)
    assert (batches[at_work].paused, batches[standing].paused) == (False, True)


def test_what_control_processes_have_before_them_is_as_old_as_its_oldest_batch(
    sessions, scene: Scene
):
    long_ago = [func.now() - timedelta(minutes=minutes) for minutes in (30, 20, 10)]
    idle = look(sessions).control
    scene.batch(created_at=long_ago[0])
    scene.batch(state=JobState.VALIDATING, created_at=long_ago[1])
    scene.batch(state=JobState.QUEUED, created_at=long_ago[2])
    scene.batch(state=JobState.FINALIZING, created_at=long_ago[0], finalizing_at=long_ago[2])

    busy = look(sessions).control

    assert (idle.planning, idle.finalizing) == (0, 0)
    assert (busy.planning // 60, busy.finalizing // 60) == (20, 10)


def test_a_batch_without_rows_yet_has_made_no_progress(sessions, scene: Scene):
    scene.batch(state=JobState.VALIDATING, model=None)

    (batch,) = look(sessions).batches

    assert batch.progress == 0.0
    assert batch.prefix_hit_rate is None
    assert batch.model is None


def test_open_batches_come_first_and_then_the_last_to_finish(sessions, scene: Scene):
    hour_ago, day_ago = func.now() - timedelta(hours=1), func.now() - timedelta(days=1)
    long_done = scene.batch(state=JobState.FAILED, created_at=day_ago, finished_at=hour_ago)
    done = scene.batch(state=JobState.COMPLETED, created_at=day_ago)
    young = scene.batch()
    old = scene.batch(created_at=day_ago)

    seen = [batch.id for batch in look(sessions).batches]

    assert seen == [old, young, done, long_done]


def test_a_failed_batch_says_why_and_every_batch_whose_it_is(sessions, scene: Scene):
    errors = [{"code": "invalid_json_line", "message": "No JSON.", "param": None, "line": 7}]
    scene.batch(state=JobState.FAILED, errors=errors)
    scene.batch(state=JobState.COMPLETED, errors=errors)

    completed, failed = sorted(look(sessions).batches, key=lambda batch: batch.state)

    assert (failed.fault, failed.fault_line) == ("No JSON.", 7)
    assert completed.fault is None
    assert failed.tenant == completed.tenant == scene.tenant_name


def test_elapsed_stops_when_a_batch_ends(sessions, scene: Scene):
    scene.batch(
        state=JobState.COMPLETED,
        created_at=func.now() - timedelta(hours=3),
        finished_at=func.now() - timedelta(hours=1),
    )

    (batch,) = look(sessions).batches

    assert batch.elapsed == 7200


def test_a_worker_that_fell_silent_is_shown_for_a_minute_and_one_that_drained_is_not(
    sessions, scene: Scene
):
    alive = scene.worker()
    lost = scene.worker(silent_for=timedelta(seconds=30))
    scene.worker(silent_for=timedelta(seconds=90))
    scene.worker(silent_for=timedelta(seconds=30), draining=True)

    seen = {worker.incarnation: worker for worker in look(sessions).workers}

    assert set(seen) == {alive, lost}
    assert seen[alive].alive
    assert not seen[lost].alive
    assert 90 <= seen[lost].beat_age < 120  # the TTL, and 30 s more


def test_totals_are_those_of_the_live_workers(sessions, scene: Scene):
    numbers = {"output_tokens_per_second": 100.0, "cached_tokens": 30, "prefill_tokens_logical": 40}
    scene.worker(stats=numbers)
    scene.worker(stats=numbers | {"output_tokens_per_second": 50.5, "cached_tokens": 10})
    scene.worker(stats=numbers, silent_for=timedelta(seconds=1))
    scene.worker(model=None)

    seen = look(sessions)

    assert seen.tokens_per_second == 150.5
    assert seen.prefix_hit_rate == 0.5


def test_what_a_worker_does_not_say_in_numbers_is_unknown(sessions, scene: Scene):
    scene.worker(stats={"running": "many", "waiting": True, "prefix_hit_rate": None, "extra": {}})

    (worker,) = look(sessions).workers

    assert (worker.running, worker.waiting, worker.prefix_hit_rate) == (None, None, None)
    assert worker.steps == 12
