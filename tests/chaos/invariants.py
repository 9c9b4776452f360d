"""The invariants of docs/guarantees.md, looked up in the database and in the files themselves."""

import hashlib
from collections.abc import Mapping
from typing import Any

from openai.types import Batch
from sqlalchemy import text

from jobs.doorbell import CONTROL, KEY_PREFIX, MAX_BELLS, inference_queue
from tests.chaos.batches import FaultClient, right_answers
from tests.e2e.client import counts
from tests.fixtures.fault_stack import MODEL, SWEEP, FaultStack, wait_for

# The triggers that keep rows in order, the tests' history among them, see none of this.
_REOPEN = (
    "SET LOCAL session_replication_role = replica",
    "DELETE FROM events WHERE job_id = :id",
    "UPDATE jobs SET state = 'finalizing', finished_at = NULL, output_file_id = NULL,"
    " error_file_id = NULL WHERE id = :id",
    "DELETE FROM files WHERE filename LIKE 'batch_' || :hex || '_%'",
)


class Checked:
    """A batch that has ended, and what it was of.  `texts` by `custom_id`, in input order."""

    def __init__(
        self, stack: FaultStack, client: FaultClient, batch: Batch, texts: Mapping[str, str]
    ) -> None:
        self._stack = stack
        self._client = client
        self._batch = batch
        self._texts = texts
        self._id = batch.id.removeprefix("batch_")

    def check(self) -> None:
        self._every_row_is_answered_once_and_rightly()
        self._counts_agree()
        self._segments_are_what_their_rows_say()
        self._one_event_was_made()

    def _every_row_is_answered_once_and_rightly(self) -> None:
        output = self._client.ids(self._batch.output_file_id)
        errors = self._client.ids(self._batch.error_file_id)
        assert sorted(output + errors) == sorted(self._texts), "I4"
        assert output == [name for name in self._texts if name in set(output)], "I4: input order"
        right = right_answers(self._texts)
        said = self._client.answers(self._batch)
        assert said == {name: right[name] for name in output}, "I4: the answers themselves"

    def _counts_agree(self) -> None:
        total, completed, failed = counts(self._batch)
        never_ran = ("batch_cancelled", "batch_expired")
        errors = [
            code for code in self._client.failures(self._batch).values() if code not in never_ran
        ]
        ((rows, segments),) = self._stack.rows(
            "SELECT (SELECT count(*) FROM results WHERE job_id = :id),"
            " (SELECT coalesce(sum(ok + failed), 0) FROM segments WHERE job_id = :id)",
            id=self._id,
        )
        assert rows == segments, "I5"
        assert completed == len(self._client.ids(self._batch.output_file_id)), "I5"
        assert (total, failed) == (len(self._texts), len(errors)), "I5"

    def _segments_are_what_their_rows_say(self) -> None:
        named = self._stack.rows(
            "SELECT storage_key, bytes, sha256 FROM segments WHERE job_id = :id", id=self._id
        )
        for key, size, sha256 in named:
            data = self._stack.storage.read(key)
            assert (len(data), hashlib.sha256(data).hexdigest()) == (size, sha256), f"I3: {key}"

    def _one_event_was_made(self) -> None:
        events = self._stack.column("SELECT type FROM events WHERE job_id = :id", id=self._id)
        assert events == [f"batch.{self._batch.status}"], "I6"

    def drop_garbage(self) -> int:
        """Delete every object of the batch's that no row names; returns how many those were."""
        named = self._stack.column(
            "SELECT storage_key FROM segments WHERE job_id = :id"
            " UNION SELECT input_key FROM shards WHERE job_id = :id AND input_key IS NOT NULL"
            " UNION SELECT storage_key FROM files f JOIN jobs j"
            "    ON f.id IN (j.output_file_id, j.error_file_id) WHERE j.id = :id",
            id=self._id,
        )
        tenant = self._stack.column("SELECT tenant_id FROM jobs WHERE id = :id", id=self._id)[0]
        folder = f"t/{tenant.hex}/b/{self._id}/"
        there = [found.key for found in self._stack.storage.objects(folder)]
        garbage = sorted(set(there) - set(named))
        self._stack.storage.delete(garbage)
        return len(garbage)

    def finalize_again(self) -> None:
        """I12: the same rows give the same bytes, whoever writes them, however often."""
        first = self._files()
        with self._stack.sessions.begin() as session:
            for statement in _REOPEN:
                session.execute(text(statement), {"id": self._id, "hex": self._id})
        self._batch = self._client.wait(self._client.openai.batches.retrieve(self._batch.id))
        assert self._files() == first, "I12"

    def _files(self) -> list[bytes | None]:
        ids = (self._batch.output_file_id, self._batch.error_file_id)
        return [
            None if each is None else self._client.openai.files.content(each).content
            for each in ids
        ]


def check_queue(stack: FaultStack) -> None:
    """What holds for the queue as a whole once all work has ended."""
    wait_for(lambda: leases_of_the_dead(stack) == 0)  # I7
    for queue in (CONTROL, inference_queue(MODEL)):
        assert _bells(stack, queue) <= 2 * MAX_BELLS, "I8"


def leases_of_the_dead(stack: FaultStack) -> Any:
    """How many workers hold something, though they have been dead for two sweeps."""
    return stack.column(
        "SELECT count(*) FROM workers w WHERE beat_until < now() - make_interval(secs => :slack)"
        " AND (EXISTS (SELECT 1 FROM shards WHERE owner = w.incarnation)"
        "   OR EXISTS (SELECT 1 FROM jobs WHERE owner = w.incarnation))",
        slack=2 * SWEEP,
    )[0]


def _bells(stack: FaultStack, queue: str) -> int:
    return int(stack.broker.llen(KEY_PREFIX + queue))
