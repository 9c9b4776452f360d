from prometheus_client import CollectorRegistry

from api.dashboard.collector import QueueCollector
from api.dashboard.snapshots import Snapshots
from jobs.database import Sessions
from tests.integration.dashboard.scene import MODEL, TTL, Scene


def test_a_scrape_says_where_the_requests_are_and_who_is_alive(sessions, scene: Scene):
    worker = scene.worker(stats={"running": 6})
    scene.worker(model=None)
    job = scene.batch(total=48)
    scene.shard(job, rows=16, owner=worker)
    scene.shard(job, rows=32)
    registry = CollectorRegistry()
    registry.register(QueueCollector(Snapshots(sessions, beat_ttl=TTL)))

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"gristmill_{name}", labels)

    bulk = {"model": MODEL, "priority": "bulk"}
    assert sample("database_up") == 1
    assert sample("queue_depth", **bulk, state="waiting") == 32
    assert sample("queue_depth", **bulk, state="claimed") == 10
    assert sample("queue_depth", **bulk, state="running") == 6
    assert sample("queue_depth", model=MODEL, priority="interactive", state="waiting") == 0
    assert sample("oldest_queued_seconds", **bulk) is not None
    assert sample("leases_active", **bulk) == 1
    assert sample("workers_alive", kind="inference", model=MODEL) == 1
    assert sample("workers_alive", kind="control", model="") == 1
    assert sample("oldest_batch_seconds", step="planning") == 0
    assert sample("oldest_batch_seconds", step="finalizing") == 0
    age = sample("heartbeat_age_seconds", kind="inference", model=MODEL)
    assert age is not None
    assert 0 <= age < TTL.total_seconds()


def test_without_a_database_a_scrape_says_just_that(no_database: Sessions):
    registry = CollectorRegistry()
    registry.register(QueueCollector(Snapshots(no_database, beat_ttl=TTL)))

    names = {metric.name for metric in registry.collect()}

    assert names == {"gristmill_database_up"}
    assert registry.get_sample_value("gristmill_database_up") == 0
