"""What the store does not delete when it is asked to is not forgotten, and hides nothing else."""

import re
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

from jobs import deletion
from jobs.errors import NotDeleted
from jobs.settings import StorageSettings
from jobs.storage import Storage
from tests.fixtures.changing_proxy import changed
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.work import Work
from worker.control import janitor as janitor_module
from worker.control.janitor import Janitor
from worker.control.orphans import OrphanCollector
from worker.control.purge import purge

_DONE = re.compile(rb"<Deleted>(<Key>[^<]*kept</Key>)</Deleted>")
_GONE = re.compile(rb"<Deleted>(<Key>[^<]*</Key>)</Deleted>")


def refused(answer: bytes) -> bytes:
    """An answer that refuses to delete objects whose keys end in "kept".  The store behind it is
    asked for them all the same; what it did is not looked at."""
    return _DONE.sub(rb"<Error>\1</Error>", answer).ljust(len(answer))


@pytest.fixture
def keeping(storage_settings: StorageSettings) -> Iterator[Storage]:
    """The same bucket, whose objects of a name that ends in "kept" cannot be deleted."""
    with changed(storage_settings, answered=refused) as settings:
        yield Storage(settings)


def test_a_deletion_names_what_the_store_keeps_and_the_rest_is_gone(keeping: Storage) -> None:
    keys = ["a", "b-kept", "c", "d-kept"]
    for key in keys:
        keeping.put(key, b"x")

    with pytest.raises(NotDeleted, match="2 objects were not deleted, b-kept first") as refusal:
        keeping.delete(keys)

    assert refusal.value.keys == {"b-kept", "d-kept"}
    assert keeping.find("a") is keeping.find("c") is None


def not_there(answer: bytes) -> bytes:
    """How some stores answer of a key that they do not have; a name space makes room for it."""
    shorter = re.sub(rb' xmlns="[^"]*"', b"", answer)
    return _GONE.sub(rb"<Error>\1<Code>NoSuchKey</Code></Error>", shorter).ljust(len(answer))


def test_what_is_not_there_is_gone(storage_settings: StorageSettings) -> None:
    with changed(storage_settings, answered=not_there) as settings:
        Storage(settings).delete(["never-was"])


def test_files_that_the_store_keeps_are_asked_for_again_and_hide_no_other(
    work: Work, keeping: Storage, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor_module, "_PAGE", 1)
    for key in ("1-kept", "2-kept", "3"):
        work.add_file(key)
    with work.sessions.begin() as session:
        session.execute(text("UPDATE files SET deleted_at = now() - interval '1 hour'"))
    collected = """
        SELECT string_agg(storage_key, ' ' ORDER BY storage_key)
          FROM files WHERE collected_at IS NOT NULL
    """

    Janitor(work.sessions, keeping).tidy()
    at_first = work.scalar(collected)
    Janitor(work.sessions, storage).tidy()

    assert at_first == "3"
    assert work.scalar(collected) == "1-kept 2-kept 3"


def test_a_deleted_batch_of_which_the_store_keeps_an_object_ends_and_hides_no_other(
    pipeline: Pipeline, keeping: Storage
) -> None:
    work = pipeline.work
    for _ in range(2):
        job_id = pipeline.submit(input_line("a"))
        pipeline.plan()
        pipeline.run()
        pipeline.finalize()
        pipeline.storage.put(f"t/{work.tenant_id.hex}/b/{job_id.hex}/out/kept", b"x")
        with work.sessions.begin() as session:
            deletion.delete(session, tenant_id=work.tenant_id, job_id=job_id)

    purge(work.sessions, keeping)

    assert work.scalar("SELECT count(*) FROM jobs WHERE purged_at IS NULL") == 0


def test_an_orphan_that_the_store_keeps_hides_no_other(work: Work, keeping: Storage) -> None:
    folder = f"t/{work.tenant_id.hex}/b/{uuid4().hex}"
    keeping.put(f"{folder}/1-kept", b"x")
    keeping.put(f"{folder}/2", b"x")

    OrphanCollector(work.sessions, keeping, older_than=timedelta()).collect()

    assert keeping.find(f"{folder}/2") is None
