"""A running stack for each module here, with a tiny real model on the real engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.client import Client
from tests.fixtures.folders import open_folder
from tests.fixtures.stack import UpStack, starting_in

# Small, so that a test can write a prompt that is too long.
CONTEXT = "256"  # tokens


@pytest.fixture(scope="module")
def stack(tiny_model_dir: Path) -> Iterator[UpStack]:
    with open_folder() as folder, starting_in(folder) as start:
        yield start("--model", str(tiny_model_dir), MODEL__MAX_MODEL_LEN=CONTEXT)


@pytest.fixture(scope="module")
def client(stack: UpStack) -> Iterator[Client]:
    with Client(stack.facts) as client:
        yield client
