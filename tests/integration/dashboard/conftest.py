"""The dashboard over a database of the test's own."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.dashboard.app import create_dashboard
from api.dashboard.snapshots import Snapshots
from cli.ports import HOST, free_pairs
from jobs.database import Sessions, connect, sessions_of
from jobs.secrets import Secrets
from tests.integration.dashboard.scene import TTL, Scene, open_scene
from tests.integration.dashboard.visitor import Visitor


@pytest.fixture
def secrets() -> Secrets:
    return Secrets(Secrets.generate_key())


@pytest.fixture
def scene(sessions: Sessions, secrets: Secrets) -> Iterator[Scene]:
    with open_scene(sessions, secrets) as scene:
        yield scene


@pytest.fixture
def no_database() -> Iterator[Sessions]:
    """Of a port where nobody listens."""
    engine = connect(f"postgresql+psycopg://gristmill@{HOST}:{free_pairs(1)[0]}/gristmill")
    yield sessions_of(engine)
    engine.dispose()


@pytest.fixture
def dashboard(sessions: Sessions, secrets: Secrets) -> FastAPI:
    snapshots = Snapshots(sessions, beat_ttl=TTL, max_age=0)
    return create_dashboard(sessions=sessions, secrets=secrets, snapshots=snapshots)


@pytest.fixture
def visitor(dashboard: FastAPI) -> Iterator[Visitor]:
    """A browser that has not signed in, on plain http."""
    site = FastAPI()
    site.mount("/dashboard", dashboard)
    with TestClient(site, base_url="http://mill.test", follow_redirects=False) as client:
        yield Visitor(client)
