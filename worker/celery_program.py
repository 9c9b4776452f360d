"""The Celery side of both worker programs: one queue, thread pool, early acknowledgement.

A message is a bell, not work, so nothing here keeps, retries, delays or orders messages; see
docs/decisions/0003-celery-is-a-doorbell.md for why each setting stands as it does.
"""

import threading
from collections.abc import Callable
from typing import Any

from celery import Celery, signals
from kombu import Queue

from jobs.doorbell import transport_options

_SOCKET_TIMEOUT = 15  # seconds; a half-open connection is noticed after this and a health check


def make_program(name: str, broker_url: str, *, queue: str) -> Celery:
    program = Celery(name, broker=broker_url, set_as_current=False)
    program.conf.update(
        task_acks_late=False,
        worker_disable_prefetch=True,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        result_backend=None,
        task_store_errors_even_if_ignored=False,
        worker_send_task_events=False,
        task_send_sent_event=False,
        task_publish_retry=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        broker_transport_options=transport_options(_SOCKET_TIMEOUT),
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        task_create_missing_queues=False,
        task_queues=[Queue(queue)],
        task_default_queue=queue,
    )
    return program


def run(program: Celery, *, threads: int, on_stop: Callable[[], None] | None = None) -> None:
    """Answer bells until SIGTERM or SIGINT.  Returns after a warm shutdown, which waits for what
    bells have begun; `on_stop` is called as soon as it is asked for, on a thread of its own."""
    signals.setup_logging.connect(_leave_logging_alone)
    if on_stop is not None:
        _call_once_asked_to_stop(on_stop)
    arguments = [
        "--quiet",
        "worker",
        "--pool=threads",
        f"--concurrency={threads}",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    ]
    try:
        program.worker_main(arguments)
    except SystemExit as end:
        if end.code not in (0, None):
            raise


def _call_once_asked_to_stop(on_stop: Callable[[], None]) -> None:
    asked = threading.Event()

    def wait() -> None:
        asked.wait()
        on_stop()

    # Celery sends this from within its signal handler, which may interrupt anything: it only sets
    # an event.
    signals.worker_shutting_down.connect(lambda **_: asked.set(), weak=False)
    threading.Thread(target=wait, name="on-stop", daemon=True).start()


def _leave_logging_alone(**_: Any) -> None:
    """A receiver of this signal keeps Celery from setting up handlers of its own."""
