"""The bucket keeps what it was given, whole or not at all."""

from collections.abc import Iterator

import pytest

from jobs.errors import FileChanged, StorageRefused, StorageUnavailable
from jobs.multipart import PART_SIZE
from jobs.settings import StorageSettings
from jobs.storage import Storage
from tests.fixtures.changing_proxy import changed, without_first_part


@pytest.mark.parametrize("size", [0, 1, PART_SIZE - 1, PART_SIZE, 2 * PART_SIZE + 7])
@pytest.mark.law("P22")
def test_an_upload_of_any_size_reads_back(storage: Storage, size: int) -> None:
    data = bytes(index * 31 % 251 for index in range(1024)) * (size // 1024 + 1)
    data = data[:size]
    chunks = (data[at : at + 700_001] for at in range(0, size, 700_001))

    written = storage.upload("k", chunks)

    assert written == size
    assert storage.read("k") == data


def test_a_range_is_exact(storage: Storage) -> None:
    storage.put("k", b"0123456789")

    assert storage.read_range("k", 3, 4) == b"3456"
    with pytest.raises(StorageUnavailable, match="2 bytes of 5"):
        storage.read_range("k", 8, 5)


def test_another_bucket_is_read_by_the_same_credentials(storage: Storage, outside: Storage) -> None:
    outside.put("k", b"theirs")
    storage.put("k", b"ours")

    assert storage.within(outside.bucket).read("k") == b"theirs"
    assert storage.within(None).read("k") == b"ours"


def test_a_pinned_object_is_read_only_as_long_as_it_is_the_same(storage: Storage) -> None:
    storage.put("k", b"0123456789")
    found = storage.find("k")
    assert found is not None

    assert b"".join(storage.stream("k", etag=found.etag)) == b"0123456789"
    assert b"".join(storage.stream("k", start=3, end=5, etag=found.etag)) == b"34"
    storage.put("k", b"9876543210")
    with pytest.raises(FileChanged):
        next(storage.stream("k", etag=found.etag))
    storage.delete(["k"])
    with pytest.raises(FileChanged):
        next(storage.stream("k", etag=found.etag))


def test_what_is_not_there_is_not_found(storage: Storage) -> None:
    assert storage.find("k") is None


def test_objects_are_listed_by_prefix(storage: Storage) -> None:
    for key in ("a/1", "a/é +%20?.jsonl", "b/1"):
        storage.put(key, key.encode())

    listed = list(storage.objects("a/"))

    assert [found.key for found in listed] == ["a/1", "a/é +%20?.jsonl"]
    assert listed == [storage.find("a/1"), storage.find("a/é +%20?.jsonl")]


def test_a_refusal_is_told_from_silence(storage: Storage) -> None:
    with pytest.raises(StorageRefused):
        storage.within("No_Bucket").put("k", b"")


def test_an_upload_that_fails_half_way_leaves_no_object(storage: Storage) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x" * (PART_SIZE + 1)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        storage.upload("k", chunks())

    with pytest.raises(StorageUnavailable, match="NoSuchKey"):
        storage.read("k")


def test_deleted_objects_are_gone(storage: Storage) -> None:
    storage.put("a", b"1")
    storage.put("b", b"2")

    storage.delete(["a", "b", "never-was"])

    with pytest.raises(StorageUnavailable):
        storage.read("a")


def test_an_object_is_written_once_where_there_is_none(storage: Storage) -> None:
    assert storage.put_new("k", b"first")
    assert not storage.put_new("k", b"second")
    assert storage.read("k") == b"first"


@pytest.mark.law("P23")
def test_an_object_that_lost_a_part_is_refused_and_taken_away(
    storage: Storage, storage_settings: StorageSettings
) -> None:
    with (
        changed(storage_settings, asked=without_first_part) as settings,
        pytest.raises(StorageUnavailable, match=f"has {PART_SIZE} bytes, {2 * PART_SIZE} were"),
    ):
        Storage(settings).upload("k", [b"a" * PART_SIZE, b"b" * PART_SIZE])

    assert storage.find("k") is None
