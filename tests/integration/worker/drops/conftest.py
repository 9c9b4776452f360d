"""A folder in a tenant's own bucket that is watched, and what a control process does about it."""

import pytest

from jobs.doorbell import Doorbell
from jobs.locations import Location
from jobs.storage import Storage
from tests.fixtures.work import Work
from tests.integration.worker.drops.scene import Run, watch_folder
from worker.control.drops import DropWatch


@pytest.fixture
def folder(work: Work, outside: Storage) -> Location:
    folder = Location(outside.bucket, "in/")
    watch_folder(work, folder)
    return folder


@pytest.fixture
def watch(work: Work, storage: Storage, broker_url: str, folder: Location) -> DropWatch:
    return DropWatch(work.sessions, storage, Doorbell(broker_url))


@pytest.fixture
def run(work: Work, storage: Storage, broker_url: str) -> Run:
    return Run(work, storage, broker_url)
