"""Tells whoever waits for single jobs which have ended, through the broker.

Like a bell it may be lost, late or doubled without harm: it is sent after the commit, and whoever
waits also looks for itself from time to time.
"""

import logging
import threading
from collections.abc import Callable
from uuid import UUID

from redis import Redis
from redis.exceptions import RedisError

from jobs.doorbell import KEY_PREFIX

log = logging.getLogger(__name__)

_CHANNEL = f"{KEY_PREFIX}ended"
_TIMEOUT = 2  # seconds
_LOOK_EVERY = 0.5  # seconds between looks at the stop flag
_RETRY_AFTER = 1.0  # seconds


class Endings:
    """Safe to share between threads."""

    def __init__(self, broker_url: str) -> None:
        self._redis = Redis.from_url(
            broker_url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT, retry=None
        )

    def tell(self, job_id: UUID) -> None:
        """Say that a job has ended; call it after the commit."""
        try:
            self._redis.publish(_CHANNEL, job_id.hex)
        except RedisError:
            log.debug("an ending is not told: the broker does not answer")

    def listen(self, hear: Callable[[UUID], None], *, stopping: threading.Event) -> None:
        """Call `hear` with each job that is told of, until stopping."""
        while not stopping.is_set():
            try:
                self._listen(hear, stopping)
            except (RedisError, OSError):
                log.info("endings are not heard for now: the broker does not answer")
                stopping.wait(_RETRY_AFTER)

    def close(self) -> None:
        self._redis.close()

    def _listen(self, hear: Callable[[UUID], None], stopping: threading.Event) -> None:
        subscription = self._redis.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]  # redis tells no type
        with subscription as channel:
            channel.subscribe(_CHANNEL)
            while not stopping.is_set():
                message = channel.get_message(timeout=_LOOK_EVERY)
                if message is not None:
                    hear(UUID(hex=message["data"].decode()))
