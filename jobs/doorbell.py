"""Tells workers that a row may be waiting.

A bell carries no id and no state.  It may be lost, late or doubled without harm, for the worker
asks Postgres what there is; the sweeper rings again for whatever waits.  This is the one module of
`jobs` that knows Celery, and only as a sender.
"""

import logging

from celery import Celery
from kombu import Queue
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from jobs import metrics

log = logging.getLogger(__name__)

KEY_PREFIX = "gristmill:"
CONTROL = "control"
CONTROL_TASK = "control.work"
INFERENCE_TASK = "inference.claim_more"

# More bells than this say nothing new: a worker that answers one drains what it finds.
MAX_BELLS = 8

# Seconds.  A caller may hold a client's request, so a broker that is gone must not hold it long.
_SENDER_TIMEOUT = 2


def inference_queue(model: str) -> str:
    return f"inference.{model}"


def transport_options(timeout: float) -> dict[str, object]:
    """Redis under kombu as docs/decisions/0003-celery-is-a-doorbell.md sets it, in seconds."""
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": min(timeout, 5),
        "socket_keepalive": True,
        "health_check_interval": 15,
        "retry_on_timeout": False,
        "priority_steps": [0],
        "global_keyprefix": KEY_PREFIX,
    }


class Doorbell:
    """Rings queues, best effort.  Safe to share between threads."""

    def __init__(self, broker_url: str) -> None:
        self._redis = Redis.from_url(
            broker_url,
            socket_timeout=_SENDER_TIMEOUT,
            socket_connect_timeout=_SENDER_TIMEOUT,
            retry=None,  # the sweeper rings again
        )
        self._celery = Celery(set_as_current=False)
        self._celery.conf.update(
            broker_url=broker_url,
            broker_transport_options=transport_options(_SENDER_TIMEOUT),
            broker_connection_timeout=_SENDER_TIMEOUT,
            task_ignore_result=True,
            task_send_sent_event=False,
            task_publish_retry=False,
            task_serializer="json",
        )

    def ring(self, queue: str) -> bool:
        """Leave a bell, unless enough of them lie there.  False if the broker did not take it."""
        task = CONTROL_TASK if queue == CONTROL else INFERENCE_TASK
        try:
            if self._redis.llen(KEY_PREFIX + queue) < MAX_BELLS:
                self._celery.send_task(task, queue=Queue(queue), ignore_result=True)
                metrics.BELLS_RUNG.labels(queue).inc()
        except (RedisError, OperationalError, OSError):
            log.warning("bell not rung: the broker does not answer", extra={"queue": queue})
            return False
        return True

    def close(self) -> None:
        self._redis.close()
        self._celery.close()
