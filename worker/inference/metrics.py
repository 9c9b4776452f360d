"""What an inference worker exports to Prometheus: its engine's numbers, read when asked."""

from collections.abc import Callable, Iterator
from dataclasses import asdict

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.stats import EngineStats

_GAUGES = {
    "running": "Requests in the present step.",
    "waiting": "Requests that the engine holds and has not begun.",
    "kv_blocks_used": "Blocks of the KV pool in use.",
    "kv_blocks_total": "Blocks of the KV pool.",
    "progress_age_seconds": "Since the engine was last seen idle or a step further.",
}
_COUNTERS = {
    "prefill_tokens_computed": "Prompt tokens computed.",
    "prefill_tokens_logical": "Prompt tokens of all requests begun.",
    "cached_tokens": "Prompt tokens found in the prefix cache.",
    "output_tokens": "Tokens sampled.",
    "preemptions": "Sequences whose blocks were taken back.",
    "steps": "Engine steps.",
    "step_seconds": "Time spent in engine steps.",
    "first_tokens": "Requests that got their first token.",
    "first_token_seconds": "Time from a request's arrival to its first token.",
    "later_tokens": "Tokens after the first, of requests that ended.",
    "later_token_seconds": "Time from first tokens to last, of requests that ended.",
}


class EngineCollector(Collector):
    def __init__(
        self, stats: Callable[[], EngineStats], progress_age: Callable[[], float], *, model: str
    ) -> None:
        """`progress_age`: seconds since the engine was last seen idle or a step further."""
        self._stats = stats
        self._progress_age = progress_age
        self._model = model

    def collect(self) -> Iterator[Metric]:
        values = asdict(self._stats()) | {"progress_age_seconds": self._progress_age()}
        for name, words in _GAUGES.items():
            gauge = GaugeMetricFamily(f"gristmill_engine_{name}", words, labels=["model"])
            gauge.add_metric([self._model], values[name])
            yield gauge
        for name, words in _COUNTERS.items():
            counter = CounterMetricFamily(f"gristmill_engine_{name}", words, labels=["model"])
            counter.add_metric([self._model], values[name])
            yield counter
