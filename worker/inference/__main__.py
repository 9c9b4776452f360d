"""`python -m worker.inference`: one model, one engine, as much work as fits; one process per GPU.

Exits with 0 after a drain, with 1 if it cannot start, with 70 if its engine has failed.
"""

from prometheus_client import REGISTRY

from jobs.doorbell import inference_queue
from jobs.settings import read
from jobs.storage import Storage
from worker import celery_program, process
from worker.inference.assembly import assemble
from worker.inference.batch_engine import BatchEngine
from worker.inference.echo_engine import EchoEngine
from worker.inference.metrics import EngineCollector
from worker.inference.tasks import register
from worker.process import CannotStart
from worker.settings import EngineKind, InferenceSettings, ModelSettings

_BELL_THREADS = 1  # a bell only wakes the pump
_MARGIN = 15.0  # seconds beyond the grace, to hand back and to say goodbye


def load(settings: ModelSettings) -> BatchEngine:
    """The engine that the settings name.  Raises CannotStart if its model is unusable."""
    if settings.engine is EngineKind.ECHO:
        return EchoEngine()
    from engine import ModelUnusable, load_engine  # torch, which the echo engine does without

    try:
        return load_engine(
            settings.path or settings.name,
            max_model_len=settings.max_model_len,
            kv_cache_bytes=settings.kv_cache_bytes,
        )
    except ModelUnusable as error:
        raise CannotStart(str(error)) from None


def main() -> None:
    settings = read(InferenceSettings)
    model = settings.model.name
    storage = Storage(settings.storage)
    storage.probe()
    worker = assemble(settings, load(settings.model), storage)
    REGISTRY.register(EngineCollector(worker.host.stats, model=model))
    process.serve_metrics(settings.metrics)

    broker_url = settings.broker.url.get_secret_value()
    program = celery_program.make_program("inference", broker_url, queue=inference_queue(model))
    register(program, worker.held.changed)
    grace = settings.drain.grace.total_seconds()
    process.stop_by_signal()
    try:
        worker.start()
        celery_program.run(program, threads=_BELL_THREADS)
    finally:
        process.end_within(grace + _MARGIN)
        worker.drain(grace)


if __name__ == "__main__":
    process.run_or_explain(main)
