"""What no row names is collected once nobody can name it any more, and nothing else ever is."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import text

from jobs import orphans
from jobs.storage import Storage
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.work import Work
from worker.control import orphans as collecting
from worker.control.orphans import OrphanCollector

NO_AGE = timedelta()
MANY_SHARDS = 5_000


@pytest.fixture
def collector(work: Work, storage: Storage) -> OrphanCollector:
    return OrphanCollector(work.sessions, storage, older_than=NO_AGE)


def keys(storage: Storage) -> set[str]:
    return {found.key for found in storage.objects("")}


def batch_folder(work: Work, job_id: UUID) -> str:
    return f"t/{work.tenant_id.hex}/b/{job_id.hex}"


@pytest.mark.law("I10")
def test_what_crashed_attempts_left_of_an_ended_batch_goes_and_what_rows_name_stays(
    pipeline: Pipeline, collector: OrphanCollector
) -> None:
    storage, work = pipeline.storage, pipeline.work
    content = b"\n".join([input_line("a"), input_line("b", "fail"), input_line("c")])
    job_id = pipeline.submit(content)
    pipeline.plan()
    pipeline.run(fails=lambda row: b"fail" in str(row).encode())
    left = {
        f"{batch_folder(work, job_id)}/{name}"
        for name in ("in/0-0.jsonl", "out/7-0-dead.jsonl", "output-0.jsonl", "error-0.jsonl")
    }
    for key in left:
        storage.put(key, b"x")

    collector.collect()
    while_it_ran = keys(storage)
    pipeline.finalize()
    named = keys(storage) - left
    again(work, storage).collect()

    assert left < while_it_ran
    assert keys(storage) == named
    assert len(pipeline.output(job_id)) == 2
    assert len(pipeline.errors(job_id)) == 1


def test_a_page_of_keys_costs_one_look_at_the_shards_however_many_it_has(work: Work) -> None:
    folder = batch_folder(work, work.add_planned_batch([1] * MANY_SHARDS))
    with work.sessions.begin() as session:
        session.execute(text("UPDATE jobs SET state = 'completed', finished_at = now()"))
    page = [f"{folder}/in/0-{n}.jsonl" for n in range(50)]
    rows_read = text("""
        SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'shards'
    """)

    with work.sessions() as session:
        session.execute(text("SET LOCAL work_mem = '64kB'"))  # as a million shards to as many MB
        found = orphans.among(session, page)
        read = session.scalar(rows_read)

    assert found == page
    assert read <= MANY_SHARDS


def again(work: Work, storage: Storage) -> OrphanCollector:
    """One that has not just walked the bucket."""
    return OrphanCollector(work.sessions, storage, older_than=NO_AGE)


def test_files_and_parts_without_a_row_go(
    work: Work, storage: Storage, collector: OrphanCollector
) -> None:
    tenant = work.tenant_id.hex
    kept_id = work.add_file("unused")
    kept = f"t/{tenant}/files/{kept_id.hex}"
    gone = {
        f"t/{tenant}/files/{uuid4().hex}",
        f"t/{tenant}/uploads/{uuid4().hex}/{uuid4().hex}",
        f"t/{tenant}/b/{uuid4().hex}/out/1-1-x.jsonl",
        f"probe/{uuid4().hex}",
    }
    for key in (kept, *gone):
        storage.put(key, b"x")
    before = collected()

    collector.collect()

    assert keys(storage) == {kept}
    assert collected() == before + len(gone)


def collected() -> float:
    sample = REGISTRY.get_sample_value("gristmill_objects_collected_total", {"kind": "orphan"})
    return sample or 0


def test_what_is_younger_than_the_safe_age_stays(work: Work, storage: Storage) -> None:
    key = f"t/{work.tenant_id.hex}/files/{uuid4().hex}"
    storage.put(key, b"x")

    OrphanCollector(work.sessions, storage).collect()

    assert keys(storage) == {key}


def test_keys_that_are_not_ours_stay(
    work: Work, storage: Storage, collector: OrphanCollector
) -> None:
    theirs = {"notes.txt", "t/readme", f"t/{work.tenant_id.hex}/files/x", f"x/t/{uuid4().hex}"}
    for key in theirs:
        storage.put(key, b"x")

    collector.collect()

    assert keys(storage) == theirs


def test_a_walk_goes_on_where_the_last_round_ended_and_then_rests(
    work: Work, storage: Storage, monkeypatch: pytest.MonkeyPatch, collector: OrphanCollector
) -> None:
    monkeypatch.setattr(collecting, "_PAGES", 1)
    tenant = work.tenant_id.hex

    def left_behind() -> None:
        storage.put(f"t/{tenant}/files/{uuid4().hex}", b"x")

    left_behind()
    collector.collect()  # all there is
    collector.collect()  # its end
    left_behind()
    collector.collect()  # rests

    assert len(keys(storage)) == 1


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("t/{0}/files/{0}", "file"),
        ("t/{0}/uploads/{0}/{0}", "part"),
        ("t/{0}/b/{0}/in/1-2.jsonl", "job"),
        ("t/{0}/b/{0}/output-1.jsonl", "job"),
        ("probe/{0}", "probe"),
        ("t/{0}/files/{0}/x", None),
        ("t/{0}/files/", None),
        ("T/{0}/files/{0}", None),
        ("t/{0}/b/{0}/", None),
    ],
)
def test_a_key_says_whose_it_is(key: str, kind: str | None) -> None:
    owner = orphans.owner_of(key.format("0" * 32))

    assert (owner and owner.kind) == kind


def test_a_batch_that_is_being_planned_keeps_all_of_its_folder(
    work: Work, storage: Storage, collector: OrphanCollector
) -> None:
    job_id = work.add_batch()
    key = f"{batch_folder(work, job_id)}/in/1-0.jsonl"
    storage.put(key, b"x")

    collector.collect()
    kept = keys(storage)
    with work.sessions.begin() as session:
        ended = "UPDATE jobs SET state = 'failed', finished_at = now()"
        session.execute(text(ended))
    again(work, storage).collect()

    assert kept == {key}
    assert keys(storage) == set()
