"""What both worker programs do around their work: read settings, log, check the servers, time."""

import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Callable

from prometheus_client import start_http_server
from sqlalchemy.exc import SQLAlchemyError

from jobs.database import cause
from jobs.errors import StorageUnavailable
from jobs.settings import SettingsUnusable
from worker.failures import log_failure
from worker.settings import MetricsSettings

log = logging.getLogger(__name__)


class CannotStart(Exception):
    """One sentence that says what is wrong and what to do; the program exits with 1."""


def log_to_stderr() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("botocore").setLevel(logging.WARNING)


def serve_metrics(settings: MetricsSettings) -> None:
    if settings.port is not None:
        try:
            start_http_server(settings.port, addr=settings.host)
        except OSError as error:
            raise CannotStart(f"METRICS__PORT {settings.port} cannot be used: {error}.") from None


def run_or_explain(main: Callable[[], None]) -> None:
    """Run a program's main; what keeps it from starting becomes one sentence and exit code 1."""
    log_to_stderr()
    end_with_any_thread()
    try:
        main()
    except (CannotStart, SettingsUnusable) as error:
        sys.exit(f"gristmill: {error}")
    except SQLAlchemyError as error:
        sys.exit(
            f"gristmill: Postgres refuses; check DATABASE__URL and the migrations: {cause(error)}"
        )
    except StorageUnavailable as error:
        sys.exit(f"gristmill: the bucket refuses; check STORAGE__…: {error}")


def exit_for_restart(reason: str) -> None:
    """End the process at once, to be started again by whoever runs it."""
    log.critical("worker ends: %s", reason)
    logging.shutdown()
    os._exit(70)


def stop_by_signal() -> None:
    """Until Celery takes SIGTERM over, it ends `main` by SystemExit: `finally` is reached."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def end_within(seconds: float, *, resign: Callable[[], None]) -> None:
    """End the process by then, whatever still waits on a network.  `resign` says that what it holds
    is to be rescued and did not kill it: a store that is down would look like a killer else."""

    def end() -> None:
        resign()
        exit_for_restart("it could not stop in time")

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def end_with_any_thread() -> None:
    """From now on a thread that fails ends the process, to be started again by whoever runs it: one
    that went on without its beat or its pump would look alive and do nothing."""

    def end(failure: threading.ExceptHookArgs) -> None:
        log.critical("a thread failed", exc_info=failure.exc_value)
        exit_for_restart(f"thread {failure.thread and failure.thread.name} failed")

    threading.excepthook = end


class Timer:
    """Calls `work` about every `interval` seconds from a thread of its own, until stopped.

    Whatever a call raises is logged and the next one comes: this is what heals lost bells.
    """

    def __init__(self, work: Callable[[], None], *, interval: float, name: str) -> None:
        self._work = work
        self._interval = interval
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval * random.uniform(0.8, 1.2)):
            try:
                self._work()
            except Exception as error:
                log_failure(log, f"{self._thread.name} failed; it is done again", error)
