"""The inference program, whatever its engine: settings, servers, worker, bells, drain."""

from collections.abc import Callable

from prometheus_client import REGISTRY

from jobs import collector
from jobs.doorbell import inference_queue
from jobs.settings import read
from jobs.storage import Storage
from jobs.storage_probe import probe
from worker import celery_program, process
from worker.inference.assembly import assemble
from worker.inference.batch_engine import BatchEngine
from worker.inference.metrics import EngineCollector
from worker.inference.tasks import register
from worker.settings import InferenceSettings, ModelSettings

_BELL_THREADS = 1  # a bell only wakes the pump
_MARGIN = 15.0  # seconds beyond the grace, to hand back and to say goodbye


def main(load: Callable[[ModelSettings], BatchEngine]) -> None:
    """Run until SIGTERM, then drain.  `load` is called once, after S3 has been found usable."""
    settings = read(InferenceSettings)
    model = settings.model.name
    storage = Storage(settings.storage)
    probe(storage)
    worker = assemble(settings, load(settings.model), storage)
    REGISTRY.register(
        EngineCollector(worker.host.stats, worker.host.seconds_without_progress, model=model)
    )
    process.serve_metrics(settings.metrics)

    broker_url = settings.broker.url.get_secret_value()
    program = celery_program.make_program("inference", broker_url, queue=inference_queue(model))
    register(program, worker.held.changed)
    grace = settings.drain.grace.total_seconds()
    collector.spare_what_stays()
    process.stop_by_signal()
    try:
        worker.start()
        celery_program.run(program, threads=_BELL_THREADS)
    finally:
        process.end_within(grace + _MARGIN, resign=worker.beat.retire)
        worker.drain(grace)
