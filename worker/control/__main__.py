"""`python -m worker.control`: plans, finalizes, delivers and sweeps.  No GPU, no torch.

Several may run beside each other; at least one always should.
"""

import logging

from cryptography.fernet import InvalidToken

from jobs import collector, secret_renewal
from jobs.database import connect, sessions_of
from jobs.doorbell import CONTROL
from jobs.secrets import Secrets
from jobs.settings import read
from jobs.storage import Storage
from jobs.storage_probe import probe
from worker import celery_program, process
from worker.control.assembly import assemble
from worker.control.tasks import register
from worker.process import CannotStart
from worker.settings import ControlSettings

log = logging.getLogger("worker.control")

_GRACE = 20.0  # seconds to finish what has been begun


def main() -> None:
    settings = read(ControlSettings)
    storage = Storage(settings.storage)
    probe(storage)
    if settings.secrets.other_key is not None:
        _renew_secrets(settings)
    process.serve_metrics(settings.metrics)

    worker = assemble(settings, storage)
    broker_url = settings.broker.url.get_secret_value()
    program = celery_program.make_program("control", broker_url, queue=CONTROL)
    register(program, worker.desk)
    collector.spare_what_stays()
    process.stop_by_signal()

    def hurry() -> None:
        # At once, for Celery waits for its threads, which would go on until no work is left.
        worker.desk.close()
        process.end_within(_GRACE, resign=worker.beat.retire)
        worker.beat.drain()

    try:
        worker.start()
        celery_program.run(program, threads=settings.threads, on_stop=hurry)
    finally:
        hurry()
        worker.stop()


def _renew_secrets(settings: ControlSettings) -> None:
    """A server key takes another's place: what that one encrypted is written anew."""
    engine = connect(settings.database.url.get_secret_value(), pool_size=1)
    try:
        renewed = secret_renewal.renew(sessions_of(engine), Secrets(*settings.secrets.both))
    except InvalidToken:
        raise CannotStart(
            "Neither SECRETS__KEY nor SECRETS__OTHER_KEY reads the stored secrets; name the key"
            " that encrypted them."
        ) from None
    finally:
        engine.dispose()
    log.info("secrets renewed", extra={"secrets": renewed})


if __name__ == "__main__":
    process.run_or_explain(main)
