"""`python -m worker.inference`: one model, one engine, as much work as fits; one process per GPU.

Exits with 0 after a drain, with 1 if it cannot start, with 70 if its engine has failed.
"""

from prometheus_client import REGISTRY

from jobs.database import Sessions, connect, sessions_of
from jobs.doorbell import Doorbell, inference_queue
from jobs.models import WorkerKind
from jobs.secrets import Secrets
from jobs.storage import Storage
from worker import celery_program, process
from worker.beat import Beat, Rhythm, exit_for_restart
from worker.inference.batch_engine import BatchEngine
from worker.inference.custody import Custody
from worker.inference.echo_engine import EchoEngine
from worker.inference.engine_host import EngineHost
from worker.inference.held_shards import HeldShards
from worker.inference.holder import InferenceHolder
from worker.inference.metrics import EngineCollector
from worker.inference.pump import Claims, Pump
from worker.inference.result_writer import ResultWriter
from worker.inference.shard_runner import ShardRunner
from worker.inference.tasks import register
from worker.process import CannotStart, Timer
from worker.settings import EngineKind, InferenceSettings, ModelSettings
from worker.threads import Crew

_CREWS = {"starter": 4, "writer": 4, "custody": 1}  # threads
_POOL_SIZE = sum(_CREWS.values()) + 1  # and the pump's
_FLUSH_LOOK = 0.25  # seconds between looks for rows that have lain long enough
_BELL_THREADS = 1  # a bell only wakes the pump


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


def make_beat(settings: InferenceSettings, sessions: Sessions) -> Beat:
    leases = settings.leases
    return Beat(
        sessions,
        kind=WorkerKind.INFERENCE,
        model=settings.model.name,
        rhythm=Rhythm(leases.beat_interval, leases.ttl, leases.fence_after),
        die=exit_for_restart,
    )


def main() -> None:
    settings = process.read_settings(InferenceSettings)
    model = settings.model.name
    url, broker_url = (
        settings.database.url.get_secret_value(),
        settings.broker.url.get_secret_value(),
    )
    sessions = sessions_of(connect(url, pool_size=_POOL_SIZE))
    storage = Storage(settings.storage)
    storage.probe()
    doorbell = Doorbell(broker_url)
    beat = make_beat(settings, sessions_of(connect(url, pool_size=1)))

    held = HeldShards()
    host = EngineHost(load(settings.model), die=exit_for_restart)
    starters, writers, hands = (
        Crew(size, name=name, die=exit_for_restart) for name, size in _CREWS.items()
    )
    writer = ResultWriter(sessions, storage, writers)
    custody = Custody(sessions, held, host=host, writer=writer, doorbell=doorbell)
    secrets = Secrets(settings.secrets.key.get_secret_value())
    runner = ShardRunner(
        sessions, storage, host=host, writer=writer, custody=custody, secrets=secrets
    )
    pump = Pump(
        Claims(sessions, model=model, me=lambda: beat.incarnation),
        held,
        runner=runner,
        starters=starters,
        custody=custody,
        # One more pool than fits, so that the engine never waits for a claim.
        room=lambda: host.room() + host.capacity,
    )
    holder = InferenceHolder(
        held,
        host=host,
        custody=custody,
        hands=hands,
        hang_after=settings.watchdog.hang_after,
    )
    flush_timer = Timer(writer.flush_aged, interval=_FLUSH_LOOK, name="flush")
    program = celery_program.make_program("inference", broker_url, queue=inference_queue(model))
    register(program, held.changed)
    REGISTRY.register(EngineCollector(host.stats, model=model))
    process.serve_metrics(settings.metrics)

    host.start()
    beat.start(holder)
    flush_timer.start()
    pump.start()
    held.changed.set()
    celery_program.run(program, threads=_BELL_THREADS)
    beat.drain()
    pump.drain(settings.drain.grace.total_seconds())
    hands.stop()
    flush_timer.stop()
    writer.stop()
    host.stop()
    beat.retire()


if __name__ == "__main__":
    process.run_or_explain(main)
