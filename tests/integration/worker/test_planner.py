"""A file becomes request rows and shards, or the list of what is wrong with it."""

import json
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import orjson
import pytest
from sqlalchemy import text

from jobs import planning
from jobs.doorbell import Doorbell
from jobs.lines import FileLimits
from jobs.models import OnInvalidLine, WorkerKind
from jobs.settings import StorageSettings
from jobs.storage import Storage
from tests.fixtures.changing_proxy import changed
from tests.fixtures.work import MODEL, Work
from tests.fixtures.workers import control_hands
from worker.control import rows as rows_module
from worker.control import segments
from worker.control.leased_jobs import GivenUp
from worker.control.planner import Planner

STANDARD = FileLimits()


@pytest.fixture
def planner(work: Work, storage: Storage, broker_url: str) -> Planner:
    return planner_with(work, storage, broker_url)


def planner_with(
    work: Work, storage: Storage, broker_url: str, limits: FileLimits = STANDARD
) -> Planner:
    return Planner(
        work.sessions,
        storage,
        Doorbell(broker_url),
        secrets=work.secrets,
        hands=control_hands(work),
        limits=limits,
    )


def line(custom_id: str, system: str = "be kind", **changes: Any) -> str:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": custom_id}]
    row = {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": MODEL, "messages": messages, "max_tokens": 4},
    }
    return json.dumps(row | changes)


def plan(
    work: Work,
    storage: Storage,
    planner: Planner,
    lines: list[str],
    on_invalid_line: OnInvalidLine = OnInvalidLine.FAIL,
) -> Any:
    """Plan one file; returns its job's row."""
    storage.put("file", content := "\n".join(lines).encode())
    job_id = work.add_batch("file", content, on_invalid_line=on_invalid_line)
    assert planner.plan_next()
    with work.sessions() as session:
        query = text("SELECT * FROM jobs WHERE id = :id")
        return session.execute(query, {"id": job_id}).mappings().one()


def inputs(work: Work, storage: Storage) -> list[list[str]]:
    """The custom_ids of each shard's lines, in the order of the line."""
    with work.sessions() as session:
        query = text("SELECT input_key, first_line, end_line FROM shards ORDER BY stamp, id")
        found = session.execute(query).all()
    return [
        [orjson.loads(row)["custom_id"] for row in storage.read(key).splitlines()[first:end]]
        for key, first, end in found
    ]


def test_rows_that_share_a_prefix_share_a_shard(
    work: Work, storage: Storage, planner: Planner
) -> None:
    systems = ["be kind " * 40, "be brief " * 40]
    lines = [line(f"r{n}", system=systems[n % 2]) for n in range(10, 50)]

    job = plan(work, storage, planner, lines)

    assert (job["state"], job["model"], job["total"]) == ("in_progress", MODEL, 40)
    brief, kind = inputs(work, storage)
    assert kind == [f"r{n}" for n in range(10, 50, 2)]
    assert brief == [f"r{n}" for n in range(11, 50, 2)]
    assert work.scalar("SELECT count(DISTINCT prefix_key) FROM shards") == 2


def test_rows_that_may_get_long_answers_are_a_shard_each_and_share_an_object(
    work: Work, storage: Storage, planner: Planner
) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "max_tokens": 300_000}

    plan(work, storage, planner, [line(f"r{n}", body=body) for n in range(5)])

    assert inputs(work, storage) == [[f"r{n}"] for n in range(5)]
    assert work.scalar("SELECT count(DISTINCT input_key) FROM shards") == 1


def test_a_file_of_many_windows_loses_and_repeats_no_row(
    work: Work, storage: Storage, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "WINDOW_BYTES", 1000)

    ids = [f"r{n}" for n in range(10, 60)]
    job = plan(work, storage, planner, [line(custom_id) for custom_id in ids])

    assert job["total"] == 50
    assert [each for shard in inputs(work, storage) for each in shard] == ids
    assert work.scalar("SELECT count(*) FROM requests") == 50
    assert work.scalar("SELECT sum(end_line - first_line) FROM shards") == 50


@pytest.mark.law("P16")
def test_every_bad_line_is_listed_in_order_duplicates_among_them(
    work: Work, storage: Storage, planner: Planner
) -> None:
    lines = [line("a"), "{bad", line("a"), "", line("b", method="GET"), line("a")]

    job = plan(work, storage, planner, lines)

    assert job["state"] == "failed"
    assert [(error["code"], error["line"]) for error in job["errors"]] == [
        ("invalid_json_line", 2),
        ("duplicate_custom_id", 3),
        ("invalid_request", 5),
        ("duplicate_custom_id", 6),
    ]
    assert "line 1" in job["errors"][1]["message"]
    assert work.scalar("SELECT count(*) FROM shards") == 0
    assert work.scalar("SELECT type FROM events") == "batch.failed"


def test_skipped_lines_are_results_already_and_the_rest_runs(
    work: Work, storage: Storage, planner: Planner
) -> None:
    lines = [line("a"), "{bad", line("a"), line("b")]

    job = plan(work, storage, planner, lines, OnInvalidLine.SKIP)

    assert (job["state"], job["total"], len(job["errors"])) == ("in_progress", 4, 2)
    with work.sessions() as session:
        done = session.scalars(text("SELECT index FROM results WHERE NOT ok ORDER BY index")).all()
        key = session.scalars(text("SELECT storage_key FROM segments")).one()
    assert done == [1, 2]
    skipped = [orjson.loads(row) for row in storage.read(key).splitlines()]
    assert [(row["line"], row["custom_id"], row["error"]["code"]) for row in skipped] == [
        (2, None, "invalid_json_line"),
        (3, None, "duplicate_custom_id"),
    ]


def test_of_many_segments_of_skipped_lines_a_rows_last_fault_is_the_one_told(
    work: Work, storage: Storage, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MOST_LINES", 2)
    lines = [line("a"), "[]", "{bad", line("a", method="GET"), line("b"), line("b"), "7"]

    job = plan(work, storage, planner, lines, OnInvalidLine.SKIP)

    assert (job["total"], len(job["errors"])) == (7, 5)
    assert work.scalar("SELECT sum(failed) FROM segments") == 5
    with work.sessions() as session:
        rows = session.execute(
            text("""
            SELECT r.index, s.storage_key, r.start, r.length
              FROM results r JOIN segments s ON s.id = r.segment_id ORDER BY r.index
        """)
        ).all()
    told = [(row[0], orjson.loads(storage.read_range(*row[1:]))["error"]["code"]) for row in rows]
    assert told == [
        (1, "invalid_request"),
        (2, "invalid_json_line"),
        (3, "duplicate_custom_id"),
        (5, "duplicate_custom_id"),
        (6, "invalid_request"),
    ]


@pytest.mark.parametrize(
    ("lines", "code"),
    [([], "empty_file"), (["", " \t"], "empty_file"), ([line("a")] * 4, "too_many_tasks")],
)
def test_a_file_that_is_wrong_as_a_whole_fails(
    work: Work, storage: Storage, broker_url: str, lines: list[str], code: str
) -> None:
    planner = planner_with(work, storage, broker_url, FileLimits(lines=3))

    job = plan(work, storage, planner, lines, OnInvalidLine.SKIP)

    assert job["state"] == "failed"
    assert job["errors"][0]["code"] == code
    assert job["errors"][0]["line"] is None


def test_a_line_may_have_so_many_bytes_and_no_more(
    work: Work, storage: Storage, broker_url: str
) -> None:
    longest, longer = line("a"), line("bb")
    planner = planner_with(work, storage, broker_url, FileLimits(line_bytes=len(longest)))

    job = plan(work, storage, planner, [longest, longer], OnInvalidLine.SKIP)

    assert (job["state"], job["total"]) == ("in_progress", 2)
    (error,) = job["errors"]
    assert (error["code"], error["line"]) == ("invalid_request", 2)
    assert f"over {len(longest):,} bytes" in error["message"]


def test_skip_fails_when_no_line_is_good(work: Work, storage: Storage, planner: Planner) -> None:
    job = plan(work, storage, planner, ["{bad", "[]"], OnInvalidLine.SKIP)

    assert job["state"] == "failed"
    assert len(job["errors"]) == 2


def test_a_second_plan_starts_from_nothing(work: Work, storage: Storage, planner: Planner) -> None:
    storage.put("file", line("a").encode())
    work.add_batch("file", line("a").encode())
    dead = work.add_worker(kind=WorkerKind.CONTROL)
    lease = work.claim_plan(dead)
    with work.sessions.begin() as session:
        rows = [planning.RequestRow(index, index + 1, "from before") for index in range(5)]
        planning.load(session, lease, rows)
        session.execute(text("UPDATE jobs SET owner = NULL"))

    assert planner.plan_next()

    assert work.scalar("SELECT string_agg(custom_id, ',') FROM requests") == "a"


def test_a_file_in_another_bucket_is_read_there_and_its_bad_bytes_are_its_lines_own(
    work: Work, storage: Storage, planner: Planner, outside: Storage
) -> None:
    outside.put("in.jsonl", line("a").encode() + b"\n\xff\n" + line("b").encode())
    job_id = add_reference(work, outside, OnInvalidLine.SKIP)

    planner.plan_next()

    assert work.job_state(job_id) == "in_progress"
    assert inputs(work, storage) == [["a", "b"]]
    assert work.scalar("SELECT errors->0->>'code' FROM jobs") == "invalid_encoding"
    assert work.scalar("SELECT errors->0->>'line' FROM jobs") == "2"


@pytest.mark.parametrize("change", ["changed", "deleted"])
def test_a_file_that_is_not_what_was_registered_fails_the_batch(
    work: Work, planner: Planner, outside: Storage, change: str
) -> None:
    outside.put("in.jsonl", line("a").encode())
    job_id = add_reference(work, outside)
    if change == "changed":
        outside.put("in.jsonl", line("b").encode())
    else:
        outside.delete(["in.jsonl"])

    planner.plan_next()

    assert work.job_state(job_id) == "failed"
    assert work.scalar("SELECT errors->0->>'code' FROM jobs") == "file_changed"
    assert work.scalar("SELECT count(*) FROM requests") == 0


def add_reference(
    work: Work, outside: Storage, on_invalid_line: OnInvalidLine = OnInvalidLine.FAIL
) -> UUID:
    """A batch whose file is the object `in.jsonl` of another bucket."""
    found = outside.find("in.jsonl")
    assert found is not None
    job_id = work.add_batch("in.jsonl", outside.read("in.jsonl"), on_invalid_line=on_invalid_line)
    with work.sessions.begin() as session:
        pin = text("UPDATE files SET bucket = :bucket, etag = :etag")
        session.execute(pin, {"bucket": outside.bucket, "etag": found.etag})
    return job_id


def test_a_file_that_is_gone_from_our_bucket_fails_the_batch(work: Work, planner: Planner) -> None:
    job_id = work.add_batch("no such object")

    planner.plan_next()

    assert work.job_state(job_id) == "failed"
    assert work.scalar("SELECT errors->0->>'code' FROM jobs") == "file_unavailable"
    assert "NoSuchKey" in str(work.scalar("SELECT errors->0->>'message' FROM jobs"))


def forbidden(data: bytes) -> bytes:
    """An answer that there is no such object, as one that it is not for us; as long as before."""
    code, message = b"<Code>AccessDenied</Code>", b"<Message>Access Denied.</Message>"
    data = data.replace(b" 404 Not Found", b" 403 Forbidden")
    return re.sub(
        rb"<Code>NoSuchKey</Code><Message>.*?</Message>",
        lambda found: (code + message).ljust(len(found[0])),
        data,
    )


def test_a_file_that_is_kept_from_us_fails_the_batch(
    work: Work, storage_settings: StorageSettings, broker_url: str
) -> None:
    job_id = work.add_batch("not ours")

    with changed(storage_settings, answered=forbidden) as settings:
        planner_with(work, Storage(settings), broker_url).plan_next()

    assert work.job_state(job_id) == "failed"
    assert work.scalar("SELECT errors->0->>'code' FROM jobs") == "file_unavailable"
    assert "AccessDenied" in str(work.scalar("SELECT errors->0->>'message' FROM jobs"))


@pytest.mark.parametrize("fault", [{"endpoint": "http://127.0.0.1:1"}, {"access_key": "another"}])
def test_a_batch_waits_while_the_store_is_down_or_refuses_our_keys(
    work: Work, storage_settings: StorageSettings, broker_url: str, fault: dict[str, str]
) -> None:
    planner = planner_with(work, Storage(storage_settings.model_copy(update=fault)), broker_url)
    work.add_batch()

    with pytest.raises(GivenUp):
        planner.plan_next()

    assert work.scalar("SELECT state FROM jobs") == "validating"
    assert work.scalar("SELECT owner IS NULL AND not_before > now() FROM jobs")
    assert not planner.plan_next()


@pytest.mark.parametrize("stop", [Work.cancel, lambda work, job_id: work.stop(job_id, "expired")])
def test_a_job_that_stops_while_it_is_planned_gets_no_shards(
    work: Work, storage: Storage, planner: Planner, stop: Callable[[Work, Any], None]
) -> None:
    storage.put("file", line("a").encode())
    job_id = work.add_batch("file")
    lease = work.claim_plan(work.add_worker(kind=WorkerKind.CONTROL))

    stop(work, job_id)
    planner.plan_leased(lease)

    assert work.scalar("SELECT count(*) FROM shards") == 0
    assert work.job_state(job_id) == "stopping"
