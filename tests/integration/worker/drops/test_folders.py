"""What is put into a drop folder becomes a batch once, and its results lie beside it."""

import re
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest
from sqlalchemy import text

from jobs import deletion, drops, locations, quotas
from jobs.doorbell import Doorbell
from jobs.errors import InvalidValue
from jobs.locations import Location
from jobs.quotas import Limits
from jobs.references import read_reference
from jobs.requests import CHAT_COMPLETIONS
from jobs.settings import StorageSettings
from jobs.storage import Storage
from tests.fixtures.changing_proxy import changed
from tests.fixtures.work import Work, custom_ids
from tests.integration.worker.drops.scene import Run, batches, fail_with, line, watch_folder
from worker.control import drops as drops_module
from worker.control.drops import DropWatch
from worker.control.purge import purge


def test_a_dropped_file_becomes_a_batch_of_its_tenant(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    outside.put("in/tickets.jsonl", b"{}\n")

    watch.look()

    with work.sessions() as session:
        row = session.execute(
            text("""
                SELECT j.tenant_id, j.state, j.endpoint, j.completion_window, j.output_prefix,
                       j.expires_at - j.created_at = interval '24 hours' AS a_day,
                       f.bucket, f.filename, f.lines
                  FROM jobs j JOIN files f ON f.id = j.input_file_id
            """)
        ).one()
    assert row.tenant_id == work.tenant_id
    assert (row.state, row.endpoint, row.completion_window) == ("queued", CHAT_COMPLETIONS, "24h")
    assert row.a_day
    assert row.output_prefix == f"s3://{outside.bucket}/in/tickets."
    assert (row.bucket, row.filename, row.lines) == (outside.bucket, "tickets.jsonl", 1)


def test_two_control_processes_at_once_make_one_batch_of_each(
    work: Work, watch: DropWatch, outside: Storage, storage: Storage, broker_url: str
) -> None:
    names = [f"in/{n:02}.jsonl" for n in range(20)]
    for name in names:
        outside.put(name, name.encode())
    another = DropWatch(work.sessions, storage, Doorbell(broker_url))
    barrier = threading.Barrier(2)

    def look(watcher: DropWatch) -> None:
        barrier.wait()
        watcher.look()

    threads = [threading.Thread(target=look, args=[each]) for each in (watch, another)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert batches(work) == names


def test_a_process_that_dies_before_its_commit_has_taken_nothing(
    work: Work, watch: DropWatch, outside: Storage, storage: Storage
) -> None:
    outside.put("in/a.jsonl", b"{}\n")
    location = Location(outside.bucket, "in/a.jsonl")
    with work.sessions() as session:
        (drop,) = drops.watched(session)
        new = read_reference(storage, location, tenant_id=work.tenant_id)
        assert drops.take(session, drop, new)
        session.rollback()

    watch.look()

    assert batches(work) == ["in/a.jsonl"]


def test_other_objects_and_its_own_results_are_left_alone(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    for name in ("in/a.csv", "in/a.output.jsonl", "in/a.error.jsonl", "out/a.jsonl", "in.jsonl"):
        outside.put(name, b"{}\n")

    watch.look()

    assert batches(work) == []


def test_a_thousand_objects_and_more_are_all_found(
    work: Work, watch: DropWatch, outside: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.control.drops._PAGE", 3)
    monkeypatch.setattr("worker.control.drops._MAX_TAKEN", 4)
    names = [f"in/{n}.jsonl" for n in range(10)]
    for name in names:
        outside.put(name, b"{}\n")

    for _ in range(3):
        watch.look()

    assert batches(work) == names


def test_results_lie_beside_the_file(
    work: Work, watch: DropWatch, outside: Storage, run: Run
) -> None:
    outside.put("in/deep/tickets.jsonl", line("r0") + line("r1") + line("r2"))
    watch.look()

    run(True, False, True)
    watch.look()

    assert custom_ids(outside.read("in/deep/tickets.output.jsonl")) == ["r0", "r2"]
    assert custom_ids(outside.read("in/deep/tickets.error.jsonl")) == ["r1"]
    assert batches(work) == ["in/deep/tickets.jsonl"]


def test_a_file_that_cannot_run_has_the_reasons_beside_it(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    outside.put("in/a.jsonl", b"{bad\n")
    watch.look()
    fail_with(work, [{"code": "invalid_json_line", "line": 1}])

    watch.look()

    (why,) = outside.read("in/a.error.jsonl").splitlines()
    assert orjson.loads(why) == {"code": "invalid_json_line", "line": 1}
    assert work.scalar("SELECT count(*) FROM drop_objects WHERE settled_at IS NULL") == 0


@pytest.mark.parametrize("full", ["active_batches", "queued_tokens", "queued_requests"])
def test_a_file_waits_until_its_tenant_has_room(
    work: Work, watch: DropWatch, outside: Storage, full: str
) -> None:
    nothing = Limits(None, None, None, None, None)
    limit(work, replace(nothing, **{full: 0}))
    outside.put("in/a.jsonl", line("r0"))
    watch.look()
    assert batches(work) == []

    limit(work, nothing)
    watch.look()

    assert batches(work) == ["in/a.jsonl"]


def test_a_file_that_is_too_large_is_left_alone_and_hides_no_other(
    work: Work, storage: Storage, broker_url: str, folder: Location, outside: Storage
) -> None:
    small = line("r0")
    outside.put("in/a.jsonl", small + line("r1"))
    outside.put("in/b.jsonl", small)

    DropWatch(work.sessions, storage, Doorbell(broker_url), max_bytes=len(small)).look()

    assert batches(work) == ["in/b.jsonl"]


def test_of_one_folder_no_more_is_read_in_a_round_than_keeps_others_from_waiting(
    work: Work, watch: DropWatch, outside: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drops_module, "_MAX_READ", 1)
    outside.put("in/a.jsonl", line("r0"))
    outside.put("in/b.jsonl", line("r0"))

    watch.look()
    at_first = batches(work)
    watch.look()

    assert at_first == ["in/a.jsonl"]
    assert batches(work) == ["in/a.jsonl", "in/b.jsonl"]


def test_a_file_that_was_read_for_nothing_is_not_read_again_at_once(
    work: Work,
    folder: Location,
    outside: Storage,
    storage_settings: StorageSettings,
    broker_url: str,
) -> None:
    limit(work, Limits(1, None, None, None, None))
    outside.put("in/a.jsonl", line("r0") + line("r1"))
    asked = list[bytes]()

    def note(data: bytes) -> bytes:
        asked.extend(re.findall(rb"^GET \S*in/a\.jsonl", data))
        return data

    with changed(storage_settings, asked=note) as settings:
        watch = DropWatch(work.sessions, Storage(settings), Doorbell(broker_url))
        watch.look()
        watch.look()

    assert len(asked) == 1
    assert batches(work) == []


def limit(work: Work, limits: Limits) -> None:
    with work.sessions.begin() as session:
        quotas.set_limits(session, tenant_id=work.tenant_id, limits=limits)


def test_a_deleted_batchs_file_does_not_run_again(
    work: Work, watch: DropWatch, outside: Storage, storage: Storage
) -> None:
    outside.put("in/a.jsonl", b"{}\n")
    watch.look()
    fail_with(work, [])
    with work.sessions.begin() as session:
        job_id = session.scalars(text("SELECT id FROM jobs")).one()
        deletion.delete(session, tenant_id=work.tenant_id, job_id=job_id)
    purge(work.sessions, storage)
    assert batches(work) == []

    watch.look()

    assert batches(work) == []


def test_a_folder_that_is_watched_no_more_is_left_alone_and_remembers(
    work: Work, watch: DropWatch, outside: Storage, folder: Location
) -> None:
    outside.put("in/a.jsonl", b"{}\n")
    watch.look()
    with work.sessions.begin() as session:
        assert drops.end(session, tenant_id=work.tenant_id, folder=folder)
    outside.put("in/b.jsonl", b"{}\n")
    watch.look()
    assert batches(work) == ["in/a.jsonl"]

    watch_folder(work, folder, window="2d")
    watch.look()

    assert batches(work) == ["in/a.jsonl", "in/b.jsonl"]
    assert work.scalar("SELECT count(*) FROM jobs WHERE completion_window = '2d'") == 1


@pytest.mark.parametrize("inner", ["in/deeper", "", "in"])
def test_no_folder_is_in_anothers(work: Work, folder: Location, inner: str) -> None:
    other = work.add_tenant("other")
    place = locations.parse_folder(f"s3://{folder.bucket}/{inner}", param="prefix")

    with work.sessions.begin() as session, pytest.raises(InvalidValue, match="overlaps"):
        drops.put(session, tenant_id=other, folder=place, endpoint="e", window="24h")


def test_our_own_bucket_is_no_drop_folder(work: Work, watch: DropWatch, storage: Storage) -> None:
    watch_folder(work, Location(storage.bucket, ""))
    storage.put("a.jsonl", b"{}\n")

    watch.look()

    assert batches(work) == []


def test_a_bucket_that_cannot_be_read_holds_up_no_other(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    with work.sessions.begin() as session:
        session.execute(
            text("""
                INSERT INTO drops (tenant_id, bucket, prefix, endpoint, completion_window,
                                   created_at)
                VALUES (:tenant_id, 'No_Bucket', '', 'e', '24h', '2000-01-01')
            """),
            {"tenant_id": work.tenant_id},
        )
    outside.put("in/a.jsonl", b"{}\n")

    watch.look()

    assert batches(work) == ["in/a.jsonl"]


def fail_in_two_folders(
    work: Work, watch: DropWatch, outside: Storage, *, first: Sequence[str]
) -> None:
    """Batches of them end, and of one file in another folder; the first's bucket is away then."""
    for key in first:
        outside.put(key, b"{bad\n")
    watch.look()
    watch_folder(work, Location(outside.bucket, "other/"))
    outside.put("other/b.jsonl", b"{bad\n")
    watch.look()
    fail_with(work, [{"code": "invalid_json_line", "line": 1}])
    with work.sessions.begin() as session:
        session.execute(text("UPDATE drops SET bucket = 'No_Bucket' WHERE prefix = 'in/'"))


def test_a_bucket_that_cannot_be_written_now_keeps_no_other_file_from_being_settled(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    fail_in_two_folders(work, watch, outside, first=["in/a.jsonl"])

    watch.look()

    settled = "SELECT key FROM drop_objects WHERE settled_at IS NOT NULL"
    assert work.scalar(settled) == "other/b.jsonl"
    assert outside.read("other/b.error.jsonl")


def test_a_bucket_that_cannot_be_written_now_hides_no_other_however_many_wait_for_it(
    work: Work, watch: DropWatch, outside: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drops_module, "_MAX_TOLD", 1)
    fail_in_two_folders(work, watch, outside, first=[f"in/{n}.jsonl" for n in range(9)])

    for _ in range(2):
        watch.look()

    settled = "SELECT key FROM drop_objects WHERE settled_at IS NOT NULL"
    assert work.scalar(settled) == "other/b.jsonl"


def test_a_folder_that_cannot_be_read_is_warned_of_once(
    work: Work, watch: DropWatch, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    missing = storage.within(f"later-{uuid.uuid4().hex}")
    watch_folder(work, Location(missing.bucket, "in/"))

    watch.look()
    watch.look()

    warned = [record for record in caplog.records if missing.bucket in record.getMessage()]
    assert len(warned) == 1
