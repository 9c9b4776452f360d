"""The bucket keeps what some row still needs, and nothing that all have done with."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import text

from jobs import events, uploads
from jobs.errors import StorageUnavailable
from jobs.multipart import PART_SIZE
from jobs.storage import Storage
from jobs.uploads import NewUpload
from tests.fixtures.endpoints import add_endpoint, end_a_batch
from tests.fixtures.work import Work
from worker.control.janitor import Janitor


@pytest.fixture
def janitor(work: Work, storage: Storage) -> Janitor:
    return Janitor(work.sessions, storage)


def add_file(work: Work, storage: Storage, column: str, ago: str) -> UUID:
    """A stored file that expired or was deleted so long ago."""
    key = uuid.uuid4().hex
    storage.put(key, b"x")
    file_id = work.add_file(key)
    set_time(work, file_id, column, ago)
    return file_id


def set_time(work: Work, file_id: UUID, column: str, ago: str) -> None:
    with work.sessions.begin() as session:
        session.execute(
            text(f"UPDATE files SET {column} = now() - CAST(:ago AS interval) WHERE id = :id"),
            {"ago": ago, "id": file_id},
        )


def is_stored(work: Work, storage: Storage, file_id: UUID) -> bool:
    key = work.scalar("SELECT storage_key FROM files WHERE id = :id", id=file_id)
    return storage.find(str(key)) is not None


@pytest.mark.parametrize("column", ["expires_at", "deleted_at"])
def test_the_objects_of_expired_and_deleted_files_go_once(
    work: Work, storage: Storage, janitor: Janitor, column: str
) -> None:
    gone = add_file(work, storage, column, "1 hour")
    kept = add_file(work, storage, column, "-1 hour")

    janitor.tidy()

    assert not is_stored(work, storage, gone)
    assert is_stored(work, storage, kept)
    assert work.scalar("SELECT count(*) FROM files WHERE collected_at IS NOT NULL") == 1


def test_a_file_that_has_only_just_expired_waits_for_who_may_be_reading_it(
    work: Work, storage: Storage, janitor: Janitor
) -> None:
    file_id = add_file(work, storage, "expires_at", "1 minute")

    janitor.tidy()

    assert is_stored(work, storage, file_id)


def test_an_expired_file_is_kept_as_long_as_a_batch_reads_it(
    work: Work, storage: Storage, janitor: Janitor
) -> None:
    storage.put("in", b"x")
    job_id = work.add_batch("in")
    (file_id,) = ids(work, "SELECT input_file_id FROM jobs")
    set_time(work, file_id, "expires_at", "1 hour")

    janitor.tidy()
    kept = is_stored(work, storage, file_id)
    with work.sessions.begin() as session:
        session.execute(text("UPDATE jobs SET state = 'completed', finished_at = now()"))
    janitor.tidy()

    assert kept
    assert not is_stored(work, storage, file_id)
    assert work.job_state(job_id) == "completed"


def ids(work: Work, query: str) -> list[UUID]:
    with work.sessions() as session:
        return list(session.scalars(text(query)))


def test_an_object_in_a_tenants_own_bucket_is_never_deleted(
    work: Work, janitor: Janitor, storage: Storage, outside: Storage
) -> None:
    file_id = add_file(work, storage, "expires_at", "1 hour")
    with work.sessions.begin() as session:
        session.execute(text("UPDATE files SET bucket = :b, etag = ''"), {"b": outside.bucket})
    key = str(work.scalar("SELECT storage_key FROM files"))
    outside.put(key, b"theirs")

    janitor.tidy()

    assert outside.read(key) == b"theirs"
    assert is_stored(work, storage, file_id)


def add_part(work: Work, storage: Storage, *, presigned: bool = False) -> str:
    """A stored part of a new upload; returns its key."""
    new = NewUpload(filename="a", purpose="batch", bytes=1, file_expires_after=None)
    with work.sessions.begin() as session:
        upload = uploads.create(session, tenant_id=work.tenant_id, new=new)
        part = uploads.new_part(upload, size=1, presigned=presigned)
        uploads.add_part(session, tenant_id=work.tenant_id, new=part)
    storage.put(part.storage_key, b"x")
    return part.storage_key


def test_parts_are_kept_while_their_upload_is_pending(
    work: Work, storage: Storage, janitor: Janitor
) -> None:
    key = add_part(work, storage)

    janitor.tidy()

    assert storage.read(key) == b"x"


def test_an_upload_whose_time_is_over_expires_and_its_parts_go(
    work: Work, storage: Storage, janitor: Janitor
) -> None:
    keys = [add_part(work, storage), add_part(work, storage, presigned=True)]
    with work.sessions.begin() as session:
        session.execute(text("UPDATE uploads SET expires_at = now() - interval '1 second'"))

    janitor.tidy()

    assert [storage.find(key) for key in keys] == [None, None]
    assert work.scalar("SELECT count(*) FROM uploads WHERE state = 'expired'") == 2
    assert work.scalar("SELECT count(*) FROM upload_parts") == 0


def test_a_part_that_may_still_come_by_its_link_is_waited_for(
    work: Work, storage: Storage, janitor: Janitor
) -> None:
    sent, linked = add_part(work, storage), add_part(work, storage, presigned=True)
    with work.sessions.begin() as session:
        session.execute(text("UPDATE uploads SET state = 'cancelled'"))

    janitor.tidy()

    assert storage.find(sent) is None
    assert storage.find(linked) is not None


def test_a_write_that_nobody_will_complete_gives_its_space_back(
    work: Work, storage: Storage
) -> None:
    a_day_later = Janitor(work.sessions, storage, broken_after=timedelta(days=-1))

    def chunks_of_a_process_that_dies() -> Iterator[bytes]:
        yield b"x" * PART_SIZE
        a_day_later.tidy()
        yield b"x" * PART_SIZE

    before = collected("upload")
    with pytest.raises(StorageUnavailable, match="NoSuchUpload"):
        storage.upload("k", chunks_of_a_process_that_dies())
    assert collected("upload") == before + 1


def collected(kind: str) -> float:
    sample = REGISTRY.get_sample_value("gristmill_objects_collected_total", {"kind": kind})
    return sample or 0


def test_a_write_that_is_under_way_goes_on(work: Work, storage: Storage, janitor: Janitor) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x" * PART_SIZE
        janitor.tidy()
        yield b"x" * PART_SIZE

    assert storage.upload("k", chunks()) == 2 * PART_SIZE


def test_rows_whose_time_is_over_go_and_no_others(work: Work, janitor: Janitor) -> None:
    endpoint_id = add_endpoint(work)
    end_a_batch(work)
    with work.sessions.begin() as session:
        for age in ("25 hours", "23 hours"):
            session.execute(
                text("""
                    INSERT INTO idempotency_keys
                           (tenant_id, key, request_sha256, response, created_at)
                    VALUES (:tenant_id, CAST(:age AS text), '', '',
                            now() - CAST(CAST(:age AS text) AS interval))
                """),
                {"tenant_id": work.tenant_id, "age": age},
            )
        for age in ("8 days", "6 days"):
            session.execute(
                text("""
                    INSERT INTO webhook_targets
                           (tenant_id, target, failures, failing_since, open_until)
                    VALUES (:tenant_id, CAST(:age AS text), 5, '2000-01-01',
                            now() - CAST(CAST(:age AS text) AS interval))
                """),
                {"tenant_id": work.tenant_id, "age": age},
            )
            sample = events.add_sample(session, endpoint_id=endpoint_id, event_type="batch.failed")
            session.execute(
                text("""
                    UPDATE deliveries SET created_at = now() - CAST(:age AS interval)
                     WHERE id = :id
                """),
                {"id": sample, "age": age},
            )

    janitor.tidy()

    assert work.scalar("SELECT key FROM idempotency_keys") == "23 hours"
    assert work.scalar("SELECT target FROM webhook_targets") == "6 days"
    assert work.scalar("SELECT count(*) FROM deliveries WHERE test") == 1
    assert work.scalar("SELECT count(*) FROM events") == 2
    assert work.scalar("SELECT count(*) FROM deliveries WHERE NOT test") == 1
