"""The parts of a worker, for those tests that let go of what it holds."""

from collections.abc import Iterator

import pytest

from tests.fixtures.pipeline import Pipeline
from tests.integration.worker.bench import Bench


@pytest.fixture
def bench(pipeline: Pipeline, broker_url: str) -> Iterator[Bench]:
    bench = Bench(pipeline, broker_url)
    yield bench
    bench.stop()
