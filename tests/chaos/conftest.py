"""A stack of real processes for each module that asks, to be broken and to be well again."""

from collections.abc import Iterator

import pytest

from tests.chaos.batches import FaultClient
from tests.fixtures.fault_stack import FaultStack
from tests.fixtures.folders import open_folder

_CLOCKS = (7 * 3600.0, -5 * 3600.0)  # a worker far ahead and one far behind: no clock decides


@pytest.fixture(scope="module")
def module_stack() -> Iterator[FaultStack]:
    with open_folder() as folder:
        stack = FaultStack(folder, clocks=_CLOCKS)
        yield stack
        stack.stop()


@pytest.fixture
def stack(module_stack: FaultStack) -> FaultStack:
    """The module's, after whatever the test before did to it."""
    module_stack.wait_until_well()
    return module_stack


@pytest.fixture
def client(stack: FaultStack) -> Iterator[FaultClient]:
    client = FaultClient(stack.facts)
    with client:
        yield client
