"""Puts an inference worker together, and starts and drains it in the right order."""

from dataclasses import dataclass
from uuid import UUID

from jobs.database import connect, sessions_of
from jobs.doorbell import Doorbell
from jobs.endings import Endings
from jobs.models import WorkerKind
from jobs.secrets import Secrets
from jobs.storage import Storage
from worker.beat import Beat, beat_of_this_process
from worker.inference.batch_engine import BatchEngine
from worker.inference.custody import Custody
from worker.inference.engine_host import EngineHost
from worker.inference.held_shards import HeldShards
from worker.inference.holder import InferenceHolder
from worker.inference.pump import Claims, Pump
from worker.inference.result_writer import ResultWriter
from worker.inference.shard_runner import ShardRunner
from worker.process import Timer, exit_for_restart
from worker.settings import InferenceSettings
from worker.threads import Crew

_CREWS = {"starter": 4, "writer": 4, "custody": 1}  # threads
_POOL_SIZE = sum(_CREWS.values()) + 1  # and the pump's
_POOLS_HELD = 4  # of the engine's KV, at most
_FLUSH_LOOK = 0.25  # seconds between looks for rows that have lain long enough


@dataclass(frozen=True, slots=True)
class InferenceWorker:
    beat: Beat
    host: EngineHost
    held: HeldShards
    holder: InferenceHolder
    pump: Pump
    writer: ResultWriter
    hands: Crew
    flush_timer: Timer

    def start(self) -> None:
        self.host.start()
        self.beat.start(self.holder)
        self.flush_timer.start()
        self.pump.start()
        self.held.changed.set()  # there may be work already

    def drain(self, grace: float) -> None:
        """Claim nothing more, finish or hand back what is held within `grace` seconds, and end."""
        self.beat.drain()
        self.pump.drain(grace)
        self.hands.stop()
        self.flush_timer.stop()
        self.writer.stop()
        self.host.stop()
        self.beat.retire()


def assemble(settings: InferenceSettings, engine: BatchEngine, storage: Storage) -> InferenceWorker:
    url = settings.database.url.get_secret_value()
    sessions = sessions_of(connect(url, pool_size=_POOL_SIZE))
    beat = beat_of_this_process(
        settings.leases, url, kind=WorkerKind.INFERENCE, model=settings.model.name
    )
    starters, writers, hands = (
        Crew(size, name=name, die=exit_for_restart) for name, size in _CREWS.items()
    )
    held = HeldShards(limit=_POOLS_HELD * engine.room())
    host = EngineHost(engine, is_held=held.is_held, die=exit_for_restart)
    writer = ResultWriter(sessions, storage, writers)
    broker_url = settings.broker.url.get_secret_value()
    custody = Custody(
        sessions,
        held,
        host=host,
        writer=writer,
        doorbell=Doorbell(broker_url),
        endings=Endings(broker_url),
    )
    secrets = Secrets(*settings.secrets.both)
    runner = ShardRunner(
        sessions, storage, host=host, writer=writer, custody=custody, secrets=secrets
    )

    def me() -> UUID:
        return beat.incarnation

    def room() -> int:
        # One more pool than fits, so that the engine never waits for a claim.
        return host.room() + host.capacity

    claims = Claims(sessions, model=settings.model.name, me=me)
    pump = Pump(claims, held, runner=runner, starters=starters, custody=custody, room=room)
    hang_after = settings.watchdog.hang_after
    holder = InferenceHolder(held, host=host, custody=custody, hands=hands, hang_after=hang_after)
    flush_timer = Timer(writer.flush_aged, interval=_FLUSH_LOOK, name="flush")
    return InferenceWorker(beat, host, held, holder, pump, writer, hands, flush_timer)
