"""The queue and the workers as Prometheus reads them, counted from Postgres at each scrape."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from api.dashboard.snapshots import Snapshots
from api.errors import DATABASE_AWAY
from jobs.database import cause
from jobs.overview.views import ControlView, ModelQueue, WorkerView

log = logging.getLogger(__name__)


class QueueCollector(Collector):
    """Labels are models, priorities and kinds of worker: few, however much is submitted."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    def describe(self) -> Iterable[Metric]:
        return []  # so that registering it asks the database nothing

    def collect(self) -> Iterator[Metric]:
        database_up = GaugeMetricFamily(
            "gristmill_database_up", "1 if Postgres answered this scrape's queries."
        )
        try:
            overview = self._snapshots.newest()
        except DATABASE_AWAY as error:
            # The process's own numbers are still worth a scrape.
            log.warning("no overview for a scrape: %s", cause(error))
            database_up.add_metric([], 0)
            yield database_up
            return
        database_up.add_metric([], 1)
        yield database_up
        yield from _of_queues(overview.queues)
        yield from _of_workers(overview.workers)
        yield _of_control(overview.control)


def _of_queues(queues: Iterable[ModelQueue]) -> Iterator[Metric]:
    depth = GaugeMetricFamily(
        "gristmill_queue_depth",
        "Requests that are not finished, by where they are.",
        labels=["model", "priority", "state"],
    )
    oldest = GaugeMetricFamily(
        "gristmill_oldest_queued_seconds",
        "How long the longest-waiting shard could have been claimed.",
        labels=["model", "priority"],
    )
    leases = GaugeMetricFamily(
        "gristmill_leases_active", "Shards that workers hold.", labels=["model", "priority"]
    )
    for queue in queues:
        names = [queue.model, queue.priority]
        depth.add_metric([*names, "waiting"], queue.waiting)
        depth.add_metric([*names, "claimed"], queue.claimed)
        depth.add_metric([*names, "running"], queue.running)
        oldest.add_metric(names, queue.oldest_seconds or 0)
        leases.add_metric(names, queue.leases)
    yield from (depth, oldest, leases)


def _of_workers(workers: Iterable[WorkerView]) -> Iterator[Metric]:
    alive = GaugeMetricFamily(
        "gristmill_workers_alive", "Workers whose lease on life stands.", labels=["kind", "model"]
    )
    beat_age = GaugeMetricFamily(
        "gristmill_heartbeat_age_seconds",
        "Since the beat of the worker that has been silent for longest.",
        labels=["kind", "model"],
    )
    numbers: Counter[tuple[str, str]] = Counter()
    ages: dict[tuple[str, str], float] = {}
    for worker in workers:
        names = worker.kind.value, worker.model or ""
        numbers[names] += worker.alive
        ages[names] = max(worker.beat_age, ages.get(names, 0.0))
    for names in numbers:
        alive.add_metric(names, numbers[names])
        beat_age.add_metric(names, ages[names])
    yield from (alive, beat_age)


def _of_control(control: ControlView) -> Metric:
    oldest = GaugeMetricFamily(
        "gristmill_oldest_batch_seconds",
        "For how long the batch that waits longest has waited for this step's end.",
        labels=["step"],
    )
    oldest.add_metric(["planning"], control.planning)
    oldest.add_metric(["finalizing"], control.finalizing)
    return oldest
