"""The witness of the state machine sees what it is there to see."""

import pytest
from sqlalchemy import Engine, event, text

from tests.chaos.laws.witness import Witness
from tests.fixtures.work import Work, segment_of


@pytest.fixture
def witness(database: Engine, work: Work) -> Witness:
    """Looks after every COMMIT of the system's own."""
    witness = Witness(database)
    event.listen(work.sessions, "after_commit", lambda _: witness.look())
    return witness


def commit(database: Engine, crime: str) -> None:
    with database.begin() as connection:
        connection.execute(text(crime))


@pytest.mark.parametrize(
    ("crime", "says"),
    [
        ("UPDATE shards SET state = 'queued' WHERE state = 'done'", "from done to queued"),
        ("UPDATE shards SET attempt = 0 WHERE state = 'leased'", "an attempt fell"),
        ("UPDATE shards SET crashes = 9 WHERE state = 'done'", "after its end"),
        ("UPDATE jobs SET state = 'queued'", "from in_progress to queued"),
        ("UPDATE results SET ok = false", "after its end"),
        ("UPDATE segments SET ok = ok + 1", "after its end"),
        ("DELETE FROM results", "after its end"),
        (
            "UPDATE shards SET owner = (SELECT incarnation FROM workers w"
            " WHERE w.incarnation <> owner LIMIT 1) WHERE state = 'leased'",
            "two owners of one attempt",
        ),
        (
            "INSERT INTO events (job_id, type, payload)"
            " SELECT id, 'batch.completed', '' FROM jobs LIMIT 1",
            "differ",
        ),
    ],
)
def test_each_crime_is_named(
    work: Work, database: Engine, witness: Witness, crime: str, says: str
) -> None:
    job_id = work.add_planned_batch([2, 2])
    work.add_worker()
    first, _second = work.claim(work.add_worker())
    work.flush(first, segment_of(job_id, [0, 1]), complete=True)

    commit(database, crime)

    with pytest.raises(AssertionError, match=says):
        witness.look()


def test_a_segment_of_a_zombie_is_named(work: Work, database: Engine, witness: Witness) -> None:
    job_id = work.add_planned_batch([2])
    (old,) = work.claim(work.add_worker())
    work.flush(old, segment_of(job_id, [0]))
    work.hand_back(old)
    work.claim(work.add_worker())

    commit(
        database,
        "INSERT INTO segments (job_id, shard_id, attempt, storage_key, bytes, sha256, ok, failed,"
        " last_index, input_tokens, cached_tokens, output_tokens)"
        " SELECT job_id, shard_id, attempt, 'late', 0, '', 0, 0, 0, 0, 0, 0 FROM segments",
    )

    with pytest.raises(AssertionError, match="passed on"):
        witness.look()
