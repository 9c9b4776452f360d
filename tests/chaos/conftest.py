"""One stack of real processes for this folder, to be broken and to be well again."""

from collections.abc import Iterator

import pytest

from tests.chaos import history
from tests.chaos.batches import FaultClient
from tests.fixtures.fault_stack import FaultStack
from tests.fixtures.folders import open_folder

_CLOCKS = (7 * 3600.0, -5 * 3600.0)  # a worker far ahead and one far behind: no clock decides


@pytest.fixture(scope="package")
def standing_stack() -> Iterator[FaultStack]:
    with open_folder() as folder:
        stack = FaultStack(folder, clocks=_CLOCKS)
        try:
            history.record(stack)
            yield stack
            stack.wait_until_well()
            history.check(stack)
        finally:
            stack.stop()


@pytest.fixture
def stack(standing_stack: FaultStack) -> FaultStack:
    """It, after whatever the test before did to it."""
    standing_stack.wait_until_well()
    return standing_stack


@pytest.fixture
def client(stack: FaultStack) -> Iterator[FaultClient]:
    client = FaultClient(stack.facts)
    with client:
        yield client
