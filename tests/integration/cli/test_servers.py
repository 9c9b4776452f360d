"""The three embedded servers: real ones, started, killed and started again."""

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import psycopg
import pytest
from redis import Redis
from redis.exceptions import AuthenticationError

from cli.errors import ServerUnavailable
from cli.process import Process
from cli.program import Program
from cli.servers.embedded import Embedded, embedded, remove
from jobs.storage import Storage
from tests.integration.cli.sockets import only_loopback

Start = Callable[[Program], Process]


@pytest.fixture
def servers_here(open_path: Path) -> Embedded:
    return embedded(open_path, durable=False)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program and returns it ready; stops them all after the test."""
    with ExitStack() as cleanup:

        def started(program: Program) -> Process:
            process = Process(program)
            cleanup.callback(process.stop)
            process.wait_ready()
            return process

        yield started


def connect(servers: Embedded) -> psycopg.Connection:
    return psycopg.connect(servers.postgres.url.replace("+psycopg", ""), autocommit=True)


def test_all_three_come_up_and_end_cleanly_when_asked(servers_here: Embedded) -> None:
    processes = [Process(program) for program in servers_here.programs()]
    for process in processes:
        process.wait_ready()

    for process in processes:
        process.stop()

    assert [process.exit_code for process in processes] == [0, 0, 0]


def test_no_server_listens_beyond_loopback(servers_here: Embedded, start: Start) -> None:
    processes = [start(program) for program in servers_here.programs()]

    assert all(only_loopback(process.pid) for process in processes)


def test_stopped_servers_leave_no_socket_in_the_shared_temporary_folder(
    servers_here: Embedded, start: Start
) -> None:
    process = start(servers_here.seaweedfs.program())
    assert any(socket.exists() for socket in servers_here.seaweedfs.sockets)

    process.stop()

    assert not any(socket.exists() for socket in servers_here.seaweedfs.sockets)


def test_committed_row_outlives_a_kill_of_postgres_with_a_busy_backend(
    servers_here: Embedded, start: Start
) -> None:
    first = start(servers_here.postgres.program())
    with closing(connect(servers_here)) as writer, closing(connect(servers_here)) as busy:
        writer.execute("CREATE TABLE kept AS SELECT 1 AS n")
        busy.pgconn.send_query(b"SELECT sum(sqrt(n)) FROM generate_series(1, 1000000000) AS n")

        first.kill()
        start(servers_here.postgres.program())

    with closing(connect(servers_here)) as reader:
        assert reader.execute("SELECT n FROM kept").fetchone() == (1,)


def test_acknowledged_object_outlives_a_kill_of_the_store(
    servers_here: Embedded, start: Start
) -> None:
    first = start(servers_here.seaweedfs.program())
    storage = Storage(servers_here.seaweedfs.settings)
    storage.put("kept", b"x" * 100_000)

    first.kill()
    start(servers_here.seaweedfs.program())

    assert storage.read("kept") == b"x" * 100_000


def test_data_is_found_again_on_other_ports(open_path: Path, start: Start) -> None:
    before = embedded(open_path, durable=False)
    first = start(before.seaweedfs.program())
    Storage(before.seaweedfs.settings).put("kept", b"yesterday")
    first.stop()
    (open_path / "ports.json").unlink()

    after = embedded(open_path, durable=False)
    start(after.seaweedfs.program())

    assert after.seaweedfs.ports != before.seaweedfs.ports
    assert Storage(after.seaweedfs.settings).read("kept") == b"yesterday"


def test_broker_wants_its_password(servers_here: Embedded, start: Start) -> None:
    start(servers_here.valkey.program())

    with (
        Redis(port=servers_here.valkey.port) as stranger,
        pytest.raises(AuthenticationError, match="authenticated"),
    ):
        stranger.ping()


def test_postgres_wants_its_password(servers_here: Embedded, start: Start) -> None:
    start(servers_here.postgres.program())
    url = servers_here.postgres.url.replace("+psycopg", "")

    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.replace(servers_here.postgres.password, "guess"))


def test_nobody_reads_or_writes_objects_without_the_keys(
    servers_here: Embedded, start: Start
) -> None:
    start(servers_here.seaweedfs.program())
    Storage(servers_here.seaweedfs.settings).put("secret", b"prompt")
    s3 = str(servers_here.seaweedfs.settings.endpoint)
    filer = f"http://127.0.0.1:{servers_here.seaweedfs.ports[2]}"

    answers = [
        httpx.get(f"{s3}/gristmill/secret"),
        httpx.put(f"{s3}/gristmill/mine", content=b"x"),
        httpx.get(f"{filer}/buckets/gristmill/secret"),
        httpx.put(f"{filer}/buckets/gristmill/mine", content=b"x"),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 401, 401]


def test_stores_parts_talk_to_nobody_without_their_certificate(
    servers_here: Embedded, start: Start
) -> None:
    start(servers_here.seaweedfs.program())
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    stranger.set_alpn_protocols(["h2"])

    refused = []
    for port in servers_here.seaweedfs.ports:
        with (
            socket.create_connection(("127.0.0.1", port + 10_000), timeout=5) as plain,
            stranger.wrap_socket(plain) as encrypted,
            pytest.raises(ssl.SSLError, match="certificate required"),
        ):
            encrypted.recv(1)
        refused.append(port)

    assert len(refused) == 5


def test_taken_port_is_told_with_the_servers_own_words(servers_here: Embedded) -> None:
    with closing(socket.create_server(("127.0.0.1", servers_here.valkey.port))):
        process = Process(servers_here.valkey.program())

        with pytest.raises(ServerUnavailable, match=r"broker ended .* Address already in use"):
            process.wait_ready()

    assert process.exit_code is not None


def test_files_with_secrets_are_their_owners_alone(servers_here: Embedded, open_path: Path) -> None:
    servers_here.valkey.program().prepare()

    modes = {
        path.name: oct(path.stat().st_mode & 0o777)
        for path in (open_path / "identity.json", open_path / "broker" / "valkey.conf")
    }

    assert modes == {"identity.json": "0o600", "valkey.conf": "0o600"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's Postgres runs as somebody else")
def test_roots_postgres_keeps_its_data_elsewhere_when_it_cannot_reach_the_folder(
    tmp_path: Path, start: Start
) -> None:
    tmp_path.chmod(0o700)
    servers = embedded(tmp_path, durable=False)
    data = servers.postgres.home.data

    start(servers.postgres.program())

    try:
        assert not data.is_relative_to(tmp_path)
        assert data.stat().st_mode & 0o777 == 0o700
    finally:
        remove(tmp_path)
