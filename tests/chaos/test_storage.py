"""S3 through a toxic proxy: bytes are right, or the call says that they are not there."""

import os
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from jobs.errors import StorageUnavailable
from jobs.multipart import PART_SIZE
from jobs.settings import StorageSettings
from jobs.storage import Storage
from tests.fixtures.toxic_proxy import Kind, Toxic, ToxicProxy

_INTO_THE_BODY = 2000  # bytes of an answer
_DATA = os.urandom(300_000)
# A stall lasts as long as the client's patience, thirty seconds: test_servers.py has it.
_KINDS = [kind for kind in Kind if kind is not Kind.STALL]


@pytest.fixture
def proxy(storage_settings: StorageSettings) -> Iterator[ToxicProxy]:
    proxy = ToxicProxy()
    proxy.forward_to(urlsplit(str(storage_settings.endpoint)).port or 0)
    yield proxy
    proxy.close()


@pytest.fixture
def far(storage_settings: StorageSettings, proxy: ToxicProxy) -> Storage:
    """The same bucket, from behind the proxy."""
    return Storage(storage_settings.model_copy(update={"endpoint": proxy.url}))


def succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except StorageUnavailable:
        return False
    return True


@pytest.mark.parametrize("kind", _KINDS)
def test_an_object_is_read_rightly_or_not_at_all(
    storage: Storage, far: Storage, proxy: ToxicProxy, kind: Kind
) -> None:
    storage.put("some/object", _DATA)

    with proxy.toxic(Toxic(kind, after=_INTO_THE_BODY, times=1)) as toxic:
        read = list[bytes]()
        done = succeeds(lambda: read.append(far.read("some/object")))

    assert toxic.strikes == 1
    assert read == ([_DATA] if done else [])
    assert far.read("some/object") == _DATA


@pytest.mark.parametrize("kind", _KINDS)
def test_an_object_is_written_wholly_in_spite_of_one_fault(
    storage: Storage, far: Storage, proxy: ToxicProxy, kind: Kind
) -> None:
    with proxy.toxic(Toxic(kind, of=rb"^PUT ", times=1)) as toxic:
        far.put("some/object", _DATA)

    assert toxic.strikes == 1
    assert storage.read("some/object") == _DATA


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("request_line", [rb"^POST .*uploads", rb"^PUT .*partNumber=2"])
def test_an_object_in_parts_is_written_wholly_in_spite_of_one_fault(
    storage: Storage, far: Storage, proxy: ToxicProxy, kind: Kind, request_line: bytes
) -> None:
    data = os.urandom(PART_SIZE) + _DATA

    with proxy.toxic(Toxic(kind, of=request_line, times=1)) as toxic:
        far.upload("some/object", [data])

    assert toxic.strikes == 1
    assert storage.read("some/object") == data


def test_a_store_that_never_answers_rightly_is_given_up_within_bounds(
    far: Storage, proxy: ToxicProxy
) -> None:
    with proxy.toxic(Toxic(Kind.UNAVAILABLE)) as toxic, pytest.raises(StorageUnavailable):
        far.put("some/object", _DATA)

    assert toxic.strikes == 5  # once, and four times more
