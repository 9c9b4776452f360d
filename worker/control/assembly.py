"""Puts a control process together, and starts and stops it in the right order."""

from dataclasses import dataclass
from functools import partial

from jobs import waiting
from jobs.database import Sessions, connect, sessions_of
from jobs.doorbell import Doorbell
from jobs.lines import FileLimits
from jobs.models import WorkerKind
from jobs.secrets import Secrets
from jobs.storage import Storage
from worker.beat import Beat, HoldsNoShards, beat_of_this_process
from worker.control.courier import Courier
from worker.control.drops import DropWatch
from worker.control.finalizer import Finalizer
from worker.control.hands import Hands
from worker.control.janitor import Janitor
from worker.control.orphans import OrphanCollector
from worker.control.planner import Planner
from worker.control.rescuer import Rescuer
from worker.control.sweeper import Sweeper
from worker.control.tasks import Desk
from worker.control.webhooks import WebhookSender
from worker.process import Timer
from worker.settings import ControlSettings

# Seconds.  Work that no bell announced waits no longer than this.
_LOOK_EVERY = 5.0
_TIDY_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class ControlWorker:
    beat: Beat
    desk: Desk
    courier: Courier
    timers: tuple[Timer, ...]

    def start(self) -> None:
        self.beat.start(HoldsNoShards())
        self.courier.start()
        for timer in self.timers:
            timer.start()

    def stop(self) -> None:
        """End what the timers have begun; what else is held is given back at once."""
        for timer in self.timers:
            timer.stop()
        self.courier.stop()
        self.beat.retire()


def assemble(settings: ControlSettings, storage: Storage) -> ControlWorker:
    url = settings.database.url.get_secret_value()
    sessions = sessions_of(connect(url, pool_size=settings.threads + 4))
    doorbell = Doorbell(settings.broker.url.get_secret_value())
    secrets = Secrets(*settings.secrets.both)
    beat = beat_of_this_process(settings.leases, url, kind=WorkerKind.CONTROL, model=None)
    hands = Hands(sessions, me=lambda: beat.incarnation)

    limits = FileLimits(settings.batches.lines, settings.batches.line_bytes)
    planner = Planner(sessions, storage, doorbell, secrets=secrets, hands=hands, limits=limits)
    finalizer = Finalizer(sessions, storage, hands)
    webhooks = WebhookSender(
        sessions, secrets, hands=hands, allow_private=settings.webhooks.allow_private
    )
    courier = Courier(webhooks.deliver_next)
    desk = Desk(
        doorbell,
        plan=planner.plan_next,
        finalize=finalizer.finalize_next,
        wants_care=partial(_wants_care, sessions),
        careful=lambda: planner.plan_next(careful=True) or finalizer.finalize_next(careful=True),
        deliver=courier.call,
    )
    sweeper = Sweeper(sessions, storage, doorbell)
    rescuer = Rescuer(sessions, ttl=settings.leases.ttl)
    watch = DropWatch(sessions, storage, doorbell, max_bytes=settings.drops.file_bytes)
    janitor = Janitor(sessions, storage)
    sweep_interval = settings.leases.sweep_interval.total_seconds()
    beat_interval = settings.leases.beat_interval.total_seconds()
    timers = (
        Timer(rescuer.rescue, interval=sweep_interval, name="rescuer"),
        Timer(sweeper.sweep, interval=sweep_interval, name="sweeper"),
        Timer(desk.work, interval=_LOOK_EVERY, name="look"),
        Timer(hands.let_go_strays, interval=beat_interval, name="strays"),
        Timer(watch.look, interval=settings.drops.look_every.total_seconds(), name="drops"),
        Timer(janitor.tidy, interval=_TIDY_EVERY, name="janitor"),
        Timer(OrphanCollector(sessions, storage).collect, interval=_TIDY_EVERY, name="orphans"),
    )
    return ControlWorker(beat, desk, courier, timers)


def _wants_care(sessions: Sessions) -> bool:
    with sessions() as session:
        return waiting.for_care(session)
