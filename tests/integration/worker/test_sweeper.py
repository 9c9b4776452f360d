"""What a sweep does when Redis is of no help, or a shard's input is damaged."""

import socket
import threading
from collections.abc import Iterator
from uuid import UUID

import pytest
from sqlalchemy import text

from cli.ports import free_pairs
from jobs import workers
from jobs.database import connect, sessions_of
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


# Of an object without a name S3 cannot even be asked.
UNREADABLE = ""


def add_guilty(work: Work, input_key: str) -> UUID:
    """A batch of one line, which has killed every worker that ran it."""
    job_id = work.add_planned_batch([1])
    accuse = text("""
        UPDATE shards SET state = 'suspect', deaths_alone = 2, input_key = :input_key
         WHERE job_id = :job_id
    """)
    with work.sessions.begin() as session:
        session.execute(accuse, {"job_id": job_id, "input_key": input_key})
    return job_id


def test_many_suspects_whose_input_cannot_be_read_hide_no_other(
    work: Work, storage: Storage, broker_url: str
) -> None:
    storage.put("whole", b'{"index": 0, "custom_id": "r0"}\n')
    for _ in range(20):
        add_guilty(work, UNREADABLE)
    whole, sweeper = (
        add_guilty(work, "whole"),
        Sweeper(work.sessions, storage, Doorbell(broker_url)),
    )

    sweeper.sweep()
    sweeper.sweep()

    assert work.shard_states(whole) == ["done"]


@pytest.mark.parametrize("line", [b"\xff no JSON", b"[]", b'{"index": 0}', b"", None])
def test_a_guilty_line_that_is_damaged_is_given_up_and_its_batch_can_end(
    work: Work, storage: Storage, broker_url: str, line: bytes | None
) -> None:
    """None: the object is gone."""
    if line is not None:
        storage.put("damaged", line)
    damaged = add_guilty(work, "damaged")

    Sweeper(work.sessions, storage, Doorbell(broker_url)).sweep()

    assert work.shard_states(damaged) == ["done"]
    assert work.begin_finalizing(work.add_worker()).job_id == damaged


def test_a_suspect_whose_input_cannot_be_read_keeps_no_other_duty_from_being_done(
    work: Work, storage: Storage, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    storage.put("whole", b'{"index": 0, "custom_id": "r0"}\n')
    unreadable, whole = add_guilty(work, UNREADABLE), add_guilty(work, "whole")
    long_dead = work.add_worker()
    with work.sessions.begin() as session:
        lapse = text(
            "UPDATE workers SET beat_until = now() - interval '2 d' WHERE incarnation = :w"
        )
        session.execute(lapse, {"w": long_dead})

    Sweeper(work.sessions, storage, Doorbell(broker_url)).sweep()

    assert (work.shard_states(unreadable), work.shard_states(whole)) == (["suspect"], ["done"])
    forgotten = "SELECT count(*) = 0 FROM workers WHERE incarnation = :w"
    assert work.scalar(forgotten, w=long_dead)
    (failure,) = [record for record in caplog.records if record.exc_info]
    assert vars(failure)["job_id"] == str(unreadable)


def test_of_a_database_that_is_away_each_duty_says_one_line(
    storage: Storage, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_pairs(1)[0]
    away = connect(f"postgresql+psycopg://user@127.0.0.1:{port}/name")

    Sweeper(sessions_of(away), storage, Doorbell(broker_url)).sweep()

    said = [record for record in caplog.records if record.name == "worker.control.sweeper"]
    duties = ("expire", "hasten", "settle suspects", "forget the dead", "purge", "ring")
    assert len(said) == len(duties)
    for record, duty in zip(said, duties, strict=True):
        assert (record.levelname, record.exc_info) == ("WARNING", None)
        assert f", {duty};" in record.getMessage()
        assert str(port) in record.getMessage()
        assert "\n" not in record.getMessage()


def test_of_a_failure_that_nobody_expects_the_duty_and_the_traceback_are_logged(
    work: Work, storage: Storage, broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with work.sessions.begin() as session:
        session.execute(text("DROP TABLE models CASCADE"))

    Sweeper(work.sessions, storage, Doorbell(broker_url)).sweep()

    failures = [record for record in caplog.records if record.exc_info]
    assert ", ring;" in failures[-1].getMessage()
