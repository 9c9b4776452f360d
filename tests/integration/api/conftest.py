"""The API on a real socket, over a database and a bucket of its own; no worker behind it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

import httpx
import openai
import pytest
import uvicorn
from pydantic import SecretStr
from sqlalchemy import URL, insert

from api.app import create_app
from api.services import Services, connected
from api.settings import ApiSettings, LimitSettings
from jobs import keys
from jobs.models import Model
from jobs.secrets import Secrets
from jobs.settings import BrokerSettings, DatabaseSettings, SecretsSettings, StorageSettings
from tests.fixtures.broker import Broker
from tests.fixtures.database import cloned
from tests.fixtures.storage import bucket

# The largest file and body that these tests' server takes: small, so that too large is quick.
MAX_FILE = 12 * 2**20
MAX_JSON = 2**20


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant as it meets the API: its id, its key, and clients that send it.

    `model` is one that a worker has once run, and nobody else's in this test run.
    """

    id: UUID
    key: str
    model: str
    http: httpx.Client
    openai: openai.OpenAI


def api_settings(*, database: str, broker: str, storage: StorageSettings) -> ApiSettings:
    return ApiSettings(
        database=DatabaseSettings(url=SecretStr(database)),
        broker=BrokerSettings(url=SecretStr(broker)),
        storage=storage,
        secrets=SecretsSettings(key=SecretStr(Secrets.generate_key())),
        limits=LimitSettings(
            file_bytes=MAX_FILE,
            json_bytes=MAX_JSON,
            upload_silence=timedelta(seconds=1),
            keys_remembered=timedelta(),  # what a test changes counts at once
        ),
    )


@contextmanager
def serving(services: Services) -> Iterator[str]:
    """The address of a server that runs on a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(services, beat_ttl=timedelta(seconds=20))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield "http://{}:{}".format(*listener.getsockname())
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def api_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("api_broker"))
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def api_storage(servers: dict[str, str]) -> Iterator[StorageSettings]:
    with bucket(servers) as settings:
        yield settings


@pytest.fixture(scope="session")
def services(
    database_template: URL, api_storage: StorageSettings, api_broker: Broker
) -> Iterator[Services]:
    """Made once: each test has a tenant and a model of its own, and they see no others."""
    with cloned(database_template) as database:
        settings = api_settings(database=database, broker=api_broker.url, storage=api_storage)
        with connected(settings, stopping=lambda: False) as services:
            yield services


@pytest.fixture(scope="session")
def base_url(services: Services) -> Iterator[str]:
    with serving(services) as url:
        yield url


@contextmanager
def new_tenant(services: Services, base_url: str) -> Iterator[Tenant]:
    name = uuid4().hex
    with services.sessions.begin() as session:
        tenant_id = keys.create_tenant(session, services.secrets, name=name)
        key = keys.create_key(session, tenant_id=tenant_id, name="test")
        session.execute(insert(Model).values(name=name))
    headers = {"Authorization": f"Bearer {key}"}
    # verify=False: reading the machine's certificates, which nobody needs here, takes 50 ms.
    with (
        httpx.Client(base_url=base_url, headers=headers, timeout=30, verify=False) as http,
        openai.OpenAI(
            base_url=f"{base_url}/v1",
            api_key=key,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(verify=False),
        ) as official,
    ):
        yield Tenant(tenant_id, key, name, http, official)


@pytest.fixture
def tenant(services: Services, base_url: str) -> Iterator[Tenant]:
    with new_tenant(services, base_url) as tenant:
        yield tenant


@pytest.fixture
def other(services: Services, base_url: str) -> Iterator[Tenant]:
    with new_tenant(services, base_url) as tenant:
        yield tenant
