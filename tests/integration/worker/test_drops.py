"""What is put into a drop folder becomes a batch once, and its results lie beside it."""

import threading

import orjson
import pytest
from sqlalchemy import text

from jobs import deletion, drops, leases, locations
from jobs.doorbell import Doorbell
from jobs.errors import InvalidValue
from jobs.locations import Location
from jobs.references import read_reference
from jobs.requests import CHAT_COMPLETIONS
from jobs.storage import Storage
from tests.fixtures.work import Work, custom_ids, segment_of
from tests.fixtures.workers import control_hands
from worker.control.drops import DropWatch
from worker.control.finalizer import Finalizer
from worker.control.planner import Planner
from worker.control.purge import purge


@pytest.fixture
def folder(work: Work, outside: Storage) -> Location:
    folder = Location(outside.bucket, "in/")
    watch_folder(work, folder)
    return folder


@pytest.fixture
def watch(work: Work, storage: Storage, broker_url: str, folder: Location) -> DropWatch:
    return DropWatch(work.sessions, storage, Doorbell(broker_url))


def watch_folder(work: Work, folder: Location, *, window: str = "24h") -> None:
    with work.sessions.begin() as session:
        drops.put(
            session,
            tenant_id=work.tenant_id,
            folder=folder,
            endpoint=CHAT_COMPLETIONS,
            window=window,
        )


def batches(work: Work) -> list[str]:
    """The keys of the files of all batches, in order."""
    with work.sessions() as session:
        query = text("""
            SELECT f.storage_key FROM jobs j JOIN files f ON f.id = j.input_file_id
             WHERE j.deleted_at IS NULL ORDER BY 1
        """)
        return list(session.scalars(query))


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


def test_each_version_of_an_object_runs_once(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    outside.put("in/a.jsonl", b"1\n")
    watch.look()
    watch.look()
    assert batches(work) == ["in/a.jsonl"]

    outside.put("in/a.jsonl", b"2\n")
    watch.look()

    assert batches(work) == ["in/a.jsonl", "in/a.jsonl"]


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


class Run:
    """Plans, answers and finalizes the batch that waits: rows that are not `ok` are refused."""

    def __init__(self, work: Work, storage: Storage, broker_url: str) -> None:
        hands, doorbell = control_hands(work), Doorbell(broker_url)
        self._work, self._storage = work, storage
        self._planner = Planner(work.sessions, storage, doorbell, secrets=work.secrets, hands=hands)
        self._finalizer = Finalizer(work.sessions, storage, hands)

    def __call__(self, *ok: bool) -> None:
        self.answer(*ok)
        self.finalize()

    def answer(self, *ok: bool) -> None:
        self._planner.plan_next()
        (lease,) = self._work.claim(self._work.add_worker())
        for good in (True, False):
            rows = [index for index, each in enumerate(ok) if each is good]
            if rows:
                segment = segment_of(lease.job_id, rows, self._storage, ok=good)
                self._work.flush(lease, segment)
        with self._work.sessions.begin() as session:
            leases.complete(session, lease)

    def finalize(self) -> None:
        assert self._finalizer.finalize_next()


@pytest.fixture
def run(work: Work, storage: Storage, broker_url: str) -> Run:
    return Run(work, storage, broker_url)


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


@pytest.mark.parametrize(
    ("first", "second", "beside"),
    [
        ((False, True), (True, True), {"in/a.output.jsonl"}),
        ((True, False), (False, False), {"in/a.error.jsonl"}),
        ((True, True), (True, False), {"in/a.output.jsonl", "in/a.error.jsonl"}),
    ],
)
def test_beside_a_new_version_lie_its_own_results_alone(
    watch: DropWatch, outside: Storage, run: Run, first, second, beside: set[str]
) -> None:
    outside.put("in/a.jsonl", line("r0") + line("r1"))
    watch.look()
    run(*first)
    watch.look()

    outside.put("in/a.jsonl", line("r0") + line("r1") + b"\n")
    watch.look()
    run(*second)
    watch.look()

    assert {found.key for found in outside.objects("in/")} == {"in/a.jsonl", *beside}


def test_what_lies_beside_a_file_that_runs_for_the_first_time_is_its_owners(
    watch: DropWatch, outside: Storage, run: Run
) -> None:
    outside.put("in/a.error.jsonl", b"mine\n")
    outside.put("in/a.jsonl", line("r0"))
    watch.look()

    run(True)
    watch.look()

    assert outside.read("in/a.error.jsonl") == b"mine\n"


def test_a_file_that_cannot_run_any_more_leaves_no_old_results_beside_it(
    work: Work, watch: DropWatch, outside: Storage, run: Run
) -> None:
    outside.put("in/a.jsonl", line("r0"))
    watch.look()
    run(True)
    watch.look()

    outside.put("in/a.jsonl", b"{bad\n")
    watch.look()
    fail_with(work, [{"code": "invalid_json_line"}])
    watch.look()

    assert {found.key for found in outside.objects("in/")} == {"in/a.jsonl", "in/a.error.jsonl"}


def test_a_version_that_ends_after_a_newer_one_writes_nothing_over_its_results(
    watch: DropWatch, outside: Storage, run: Run
) -> None:
    outside.put("in/a.jsonl", line("old"))
    watch.look()
    run.answer(True)
    outside.put("in/a.jsonl", line("r0") + line("new"))
    watch.look()
    run.answer(True, True)

    run.finalize()
    run.finalize()
    watch.look()

    assert custom_ids(outside.read("in/a.output.jsonl")) == ["r0", "r1"]
    assert {found.key for found in outside.objects("in/")} == {"in/a.jsonl", "in/a.output.jsonl"}


def line(custom_id: str) -> bytes:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
    row = {"custom_id": custom_id, "method": "POST", "url": CHAT_COMPLETIONS, "body": body}
    return orjson.dumps(row) + b"\n"


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


def test_the_reasons_of_an_old_version_are_not_written_over_a_new_ones_results(
    work: Work, watch: DropWatch, outside: Storage
) -> None:
    outside.put("in/a.jsonl", b"{bad\n")
    watch.look()
    fail_with(work, [{"code": "file_changed"}])
    outside.put("in/a.jsonl", b"{better\n")

    watch.look()

    assert outside.find("in/a.error.jsonl") is None
    assert len(batches(work)) == 2


def fail_with(work: Work, errors: list[dict[str, object]]) -> None:
    with work.sessions.begin() as session:
        session.execute(
            text(
                "UPDATE jobs SET state = 'failed', finished_at = now(), errors = :errors"
                " WHERE finished_at IS NULL"
            ),
            {"errors": orjson.dumps(errors).decode()},
        )


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
