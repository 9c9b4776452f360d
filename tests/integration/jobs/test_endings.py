"""Who listens hears of endings, also after the broker was away."""

import queue
import threading
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from jobs.endings import Endings
from tests.fixtures.broker import Broker

Heard = queue.SimpleQueue[UUID]


@pytest.fixture
def heard(broker: Broker) -> Iterator[Heard]:
    """What a listener of its own hears, until the test ends."""
    endings, stopping, heard = Endings(broker.url), threading.Event(), Heard()
    thread = threading.Thread(
        target=endings.listen, args=[heard.put], kwargs={"stopping": stopping}
    )
    thread.start()
    yield heard
    stopping.set()
    thread.join()
    endings.close()


def tell_until_heard(endings: Endings, heard: Heard) -> UUID:
    """Tell of a job until the listener is there to hear it; returns the job."""
    job_id = uuid4()
    for _ in range(300):
        endings.tell(job_id)
        try:
            while (found := heard.get(timeout=0.1)) != job_id:
                pass  # an earlier one, told twice
            return found
        except queue.Empty:
            continue
    raise AssertionError("nothing was heard in half a minute")


def test_an_ending_is_heard_and_so_is_one_after_the_broker_was_away(
    broker: Broker, heard: Heard
) -> None:
    endings = Endings(broker.url)
    tell_until_heard(endings, heard)

    broker.kill()
    endings.tell(uuid4())  # to nobody, and no harm
    broker.start()

    tell_until_heard(endings, heard)
    endings.close()
