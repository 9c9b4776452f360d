"""The parts of a worker that claim, hold, compute and let go, in the test's own process."""

import threading
from datetime import timedelta
from uuid import UUID

from jobs.doorbell import Doorbell
from jobs.endings import Endings
from tests.fixtures.pipeline import Pipeline
from tests.fixtures.scripted_engine import ScriptedEngine
from tests.fixtures.work import MODEL
from tests.fixtures.workers import die
from worker.inference.custody import Custody
from worker.inference.engine_host import EngineHost
from worker.inference.held_shards import HeldShards
from worker.inference.holder import InferenceHolder
from worker.inference.pump import Claims, Pump
from worker.inference.result_writer import ResultWriter
from worker.inference.shard_runner import ShardRunner
from worker.threads import Crew


class Bench:
    """`me` is in whose name it claims, once it is somebody; nothing claims by itself."""

    def __init__(self, pipeline: Pipeline, broker_url: str) -> None:
        sessions, storage = pipeline.work.sessions, pipeline.storage
        self.begun = list[str]()
        self.engine = ScriptedEngine(self.begun.append)
        self.held = HeldShards(limit=self.engine.room())
        self.host = EngineHost(self.engine, is_held=self.held.is_held, die=die)
        self.crew = Crew(1, name="writer", die=die)
        self._bells = Doorbell(broker_url), Endings(broker_url)
        writer = ResultWriter(sessions, storage, self.crew)
        self.custody = Custody(
            sessions,
            self.held,
            host=self.host,
            writer=writer,
            doorbell=self._bells[0],
            endings=self._bells[1],
        )
        self.runner = ShardRunner(
            sessions,
            storage,
            host=self.host,
            writer=writer,
            custody=self.custody,
            secrets=pipeline.work.secrets,
        )
        self.holder = InferenceHolder(
            self.held,
            host=self.host,
            custody=self.custody,
            hands=self.crew,
            hang_after=timedelta(minutes=10),
        )
        self.me = UUID(int=0)
        self.pump = self._pump(Claims(sessions, model=MODEL, me=lambda: self.me))
        self.host.start()

    def _pump(self, claims: Claims) -> Pump:
        return Pump(
            claims,
            self.held,
            runner=self.runner,
            starters=self.crew,
            custody=self.custody,
            room=self.host.room,
        )

    def hold_up(self, gate: threading.Event) -> None:
        """Let whatever the crew is to do wait for the gate."""

        def wait() -> None:
            gate.wait()

        self.crew.submit(wait)

    def stop(self) -> None:
        self.host.stop()
        self.crew.stop()
        for bell in self._bells:
            bell.close()
