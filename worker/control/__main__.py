"""`python -m worker.control`: plans, finalizes, delivers and sweeps.  No GPU, no torch.

Several may run beside each other; at least one always should.
"""

from jobs.database import connect, sessions_of
from jobs.doorbell import CONTROL, Doorbell
from jobs.models import WorkerKind
from jobs.secrets import Secrets
from jobs.storage import Storage
from worker import celery_program, process
from worker.beat import Beat, HoldsNoShards, Rhythm, exit_for_restart
from worker.control.finalizer import Finalizer
from worker.control.planner import Planner
from worker.control.sweeper import Sweeper
from worker.control.tasks import Desk, register
from worker.control.webhooks import WebhookSender
from worker.process import Timer
from worker.settings import ControlSettings

# Seconds.  Work that no bell announced waits no longer than this.
_LOOK_EVERY = 5.0


def main() -> None:
    settings = process.read_settings(ControlSettings)
    url = settings.database.url.get_secret_value()
    broker_url = settings.broker.url.get_secret_value()
    sessions = sessions_of(connect(url, pool_size=settings.threads + 2))
    storage = Storage(settings.storage)
    storage.probe()
    secrets = Secrets(settings.secrets.key.get_secret_value())
    doorbell = Doorbell(broker_url)
    process.serve_metrics(settings.metrics)

    leases = settings.leases
    beat = Beat(
        sessions_of(connect(url, pool_size=1)),
        kind=WorkerKind.CONTROL,
        model=None,
        rhythm=Rhythm(leases.beat_interval, leases.ttl, leases.fence_after),
        die=exit_for_restart,
    )
    beat.start(HoldsNoShards())

    planner = Planner(sessions, storage, doorbell, secrets=secrets, beat=beat)
    finalizer = Finalizer(sessions, storage, beat)
    webhooks = WebhookSender(
        sessions, secrets, beat=beat, allow_private=settings.webhooks.allow_private
    )
    desk = Desk(
        doorbell,
        plan=planner.plan_next,
        finalize=finalizer.finalize_next,
        deliver=webhooks.deliver_next,
    )
    sweeper = Sweeper(sessions, storage, doorbell)
    timers = [
        Timer(sweeper.sweep, interval=leases.sweep_interval.total_seconds(), name="sweeper"),
        Timer(desk.work, interval=_LOOK_EVERY, name="look"),
    ]
    program = celery_program.make_program("control", broker_url, queue=CONTROL)
    register(program, desk)

    for timer in timers:
        timer.start()
    celery_program.run(program, threads=settings.threads)
    for timer in timers:
        timer.stop()
    beat.drain()
    beat.retire()


if __name__ == "__main__":
    process.run_or_explain(main)
