"""What a sweep does when Redis is of no help."""

import socket
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from jobs import workers
from jobs.doorbell import Doorbell
from jobs.storage import Storage
from tests.fixtures.work import Work
from worker.control.sweeper import Sweeper


class Mute:
    """A broker that takes connections and says nothing, as one that is frozen does."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self.callers = list[socket.socket]()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self.callers.append(caller)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for caller in self.callers:
            caller.close()


@pytest.fixture
def mute() -> Iterator[Mute]:
    mute = Mute()
    yield mute
    mute.close()


def test_a_frozen_broker_is_asked_once_a_sweep_not_once_a_queue(
    work: Work, storage: Storage, mute: Mute
) -> None:
    other = text("UPDATE shards SET model = 'other' WHERE id = (SELECT max(id) FROM shards)")
    work.add_planned_batch([1, 1])
    with work.sessions.begin() as session:
        workers.add_model(session, "other")
        session.execute(other)

    Sweeper(work.sessions, storage, Doorbell(mute.url)).sweep()

    assert len(mute.callers) == 1
