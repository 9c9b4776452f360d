"""The numbers that our processes really export, by the registries that they export them from."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from api.dashboard.collector import QueueCollector
from api.dashboard.snapshots import Snapshots
from api.metrics import HttpMetrics
from engine.stats import Counters, EngineStats
from jobs import metrics
from jobs.database import Sessions
from tests.integration.dashboard.scene import TTL
from worker.inference.metrics import EngineCollector

_IDLE = EngineStats(
    **{"running": 0, "waiting": 0, "kv_blocks_used": 0, "kv_blocks_total": 0},
    **{name: 0 for name in Counters.__slots__},
)


@dataclass(frozen=True, slots=True)
class Exports:
    """labels: of each sample, by its name.  values: of each label, as far as they were seen."""

    labels: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, name: str, labels: dict[str, str]) -> None:
        self.labels[name] |= labels.keys()
        for label, value in labels.items():
            self.values[label].add(value)


def exports_of(sessions: Sessions) -> Exports:
    """What the API exports of this database and of one request, and each worker of itself."""
    registry = CollectorRegistry()
    registry.register(QueueCollector(Snapshots(sessions, beat_ttl=TTL)))
    registry.register(EngineCollector(lambda: _IDLE, lambda: 0.0, model="m"))
    http = HttpMetrics(registry, waiting=lambda: 0)
    http.count({"type": "http", "method": "GET", "root_path": "/dashboard"}, 200, 0.1)

    found = Exports()
    for each in (registry, REGISTRY):
        for family in each.collect():
            for sample in family.samples:
                found.add(sample.name, sample.labels)
    for name, labels in _not_yet_counted():
        found.labels[name] |= labels
    return found


def _not_yet_counted() -> Iterator[tuple[str, set[str]]]:
    """Counters show their labels with the first count alone; nothing public tells them before."""
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            yield f"{metric._name}_total", set(metric._labelnames)
