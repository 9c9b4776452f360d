"""A worker with a real engine dies or sleeps in the middle of a batch, and the file is complete.

Every other death is tests/chaos's, with an engine that answers at once.
"""

import os
import re
import signal
import time
from typing import Any

import pytest
from openai.types import Batch
from sqlalchemy import create_engine, text

from tests.e2e.client import Client, counts
from tests.fixtures.stack import UpStack

ROWS = 300


@pytest.fixture
def under_way(client: Client) -> Batch:
    """A batch of which some rows have finished and some have not."""
    rows = [client.row(f"r{n}", max_tokens=150, ignore_eos=True) for n in range(ROWS)]
    batch = client.wait_for(client.submit(rows), lambda seen: counts(seen)[1] > 0)
    assert counts(batch)[1] < ROWS
    return batch


def assert_complete(client: Client, ended: Batch) -> None:
    assert ended.status == "completed"
    assert counts(ended) == (ROWS, ROWS, 0)
    assert client.ids(ended.output_file_id) == [f"r{n}" for n in range(ROWS)]


def column(stack: UpStack, query: str, batch: Batch) -> list[Any]:
    engine = create_engine(stack.facts.database_url)
    with engine.connect() as connection:
        found = list(connection.scalars(text(query), {"id": batch.id.removeprefix("batch_")}))
    engine.dispose()
    return found


@pytest.mark.law("P17")
def test_a_worker_killed_in_the_middle_loses_and_repeats_no_row(
    client: Client, stack: UpStack, under_way: Batch
) -> None:
    (worker,) = stack.facts.pids["workers"]
    before = column(stack, "SELECT index FROM results WHERE job_id = :id", under_way)

    os.kill(worker, signal.SIGKILL)
    ended = client.wait(under_way)

    assert_complete(client, ended)
    assert stack.facts.pids["workers"] != [worker]
    # What was durable before the death was written under the first attempt, and only once.
    first = "SELECT r.index FROM results r JOIN segments s ON s.id = r.segment_id"
    kept = column(stack, f"{first} WHERE r.job_id = :id AND s.attempt = 1", under_way)
    assert set(before) <= set(kept)
    attempts = column(stack, "SELECT attempt FROM shards WHERE job_id = :id", under_way)
    assert max(attempts) >= 2
    assert _recomputed(client, stack) > 0


def _recomputed(client: Client, stack: UpStack) -> float:
    """As the worker that came in the dead one's place counts it."""
    _, worker = (client.http.get(url).text for url in stack.facts.metrics_urls)
    found = re.search(r"^gristmill_rows_recomputed_total (\S+)$", worker, re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.mark.law("P2")
def test_a_worker_frozen_past_its_lease_changes_nothing_when_it_wakes(
    client: Client, stack: UpStack, under_way: Batch
) -> None:
    (worker,) = stack.facts.pids["workers"]

    os.kill(worker, signal.SIGSTOP)
    try:
        _until_rescued(stack, under_way)
    finally:
        os.kill(worker, signal.SIGCONT)
    ended = client.wait(under_way)

    assert_complete(client, ended)
    assert stack.facts.pids["workers"] == [worker]  # a new incarnation of the same process


def _until_rescued(stack: UpStack, batch: Batch) -> None:
    deadline = time.monotonic() + 60
    held = "SELECT count(*) FROM shards WHERE job_id = :id AND state = 'leased'"
    while column(stack, held, batch) != [0]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
