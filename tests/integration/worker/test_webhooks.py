"""A webhook goes out as Standard Webhooks says, to those who may be called, and to no others."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread

import pytest
from openai import InvalidWebhookSignatureError, OpenAI
from sqlalchemy import text

from cli.errors import CommandFailed
from cli.webhook_receiver import receiving
from jobs import endpoints, keys
from jobs.secrets import Secrets
from tests.fixtures.endpoints import add_endpoint, end_a_batch
from tests.fixtures.work import Work
from tests.fixtures.workers import control_hands
from worker.control import webhooks
from worker.control.webhooks import WebhookSender

DEADLINE = 10.0  # seconds


def sender(work: Work, secrets: Secrets, *, allow_private: bool = True) -> WebhookSender:
    hands = control_hands(work)
    return WebhookSender(work.sessions, secrets, hands=hands, allow_private=allow_private)


def outcome(work: Work) -> tuple[str, int | None, str | None]:
    with work.sessions() as session:
        query = text("SELECT state, last_status, last_error FROM deliveries")
        return tuple(session.execute(query).one())


@contextmanager
def answering(status: int, **headers: str) -> Iterator[str]:
    """A server that answers every POST with `status`; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_official_client_verifies_it(work: Work, secrets: Secrets) -> None:
    with receiving() as receiver:
        end_a_batch(work, receiver.url)
        assert sender(work, secrets).deliver_next()
        posted = receiver.next(timeout=DEADLINE)
    with work.sessions() as session:
        secret = keys.webhook_secret(session, secrets, tenant_id=work.tenant_id)

    client = OpenAI(api_key="unused")
    event = client.webhooks.unwrap(posted.body, posted.headers, secret=secret)
    client.close()

    assert event.type == "batch.completed"
    assert posted.headers["webhook-id"] == event.id
    assert posted.body.decode() == work.scalar("SELECT payload FROM events")
    assert outcome(work) == ("delivered", 204, None)


def test_another_attempt_keeps_the_id_and_the_bytes(work: Work, secrets: Secrets) -> None:
    with receiving() as receiver:
        end_a_batch(work, receiver.url)
        sender(work, secrets).deliver_next()
        first = receiver.next(timeout=DEADLINE)
        with work.sessions.begin() as session:
            session.execute(text("UPDATE deliveries SET state = 'pending', due_at = now()"))
        sender(work, secrets).deliver_next()
        second = receiver.next(timeout=DEADLINE)

    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_webhooks_that_cannot_be_signed_keep_no_thread_from_those_that_can(
    work: Work, secrets: Secrets
) -> None:
    unreadable = text("UPDATE webhook_endpoints SET secret = 'of another key'")
    with receiving() as receiver:
        add_endpoint(work)
        with work.sessions.begin() as session:
            session.execute(unreadable)
        end_a_batch(work, receiver.url)
        sending = sender(work, secrets)

        attempts = [sending.deliver_next() for _ in range(3)]
        receiver.next(timeout=DEADLINE)

    assert attempts == [True, True, False]
    with work.sessions() as session:
        query = text("SELECT state, last_error FROM deliveries ORDER BY endpoint_id NULLS FIRST")
        assert [tuple(row) for row in session.execute(query)] == [
            ("delivered", None),
            ("pending", "internal error"),
        ]


@pytest.mark.parametrize("status", [400, 500])
def test_an_answer_that_is_no_2xx_is_tried_again(work: Work, secrets: Secrets, status: int) -> None:
    with answering(status) as url:
        end_a_batch(work, url)
        sender(work, secrets).deliver_next()

    assert outcome(work) == ("pending", status, f"the endpoint answered {status}")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.law("P29")
def test_a_redirect_is_a_failure_and_is_not_followed(
    work: Work, secrets: Secrets, status: int
) -> None:
    with receiving() as elsewhere, answering(status, Location=elsewhere.url) as url:
        end_a_batch(work, url)
        sender(work, secrets).deliver_next()
        with pytest.raises(CommandFailed, match="no webhook came"):
            elsewhere.next(timeout=0)

    assert outcome(work) == ("pending", status, f"the endpoint answered {status}")


@pytest.mark.parametrize("kept", [True, False])
def test_while_a_secret_rotates_the_official_client_verifies_it_by_either(
    work: Work, secrets: Secrets, kept: bool
) -> None:
    with receiving() as receiver:
        endpoint_id = add_endpoint(work, receiver.url)
        with work.sessions.begin() as session:
            endpoint = endpoints.get(session, tenant_id=work.tenant_id, endpoint_id=endpoint_id)
            old = secrets.decrypt(endpoint.secret)
            _, new = endpoints.rotate_secret(
                session, secrets, tenant_id=work.tenant_id, endpoint_id=endpoint_id, keep_old=kept
            )
        end_a_batch(work)
        sender(work, secrets).deliver_next()
        posted = receiver.next(timeout=DEADLINE)

    with OpenAI(api_key="unused") as client:
        assert client.webhooks.unwrap(posted.body, posted.headers, secret=new)
        if kept:
            assert client.webhooks.unwrap(posted.body, posted.headers, secret=old)
        else:
            with pytest.raises(InvalidWebhookSignatureError):
                client.webhooks.unwrap(posted.body, posted.headers, secret=old)
    assert len(posted.headers["webhook-signature"].split()) == 1 + kept


def seconds_until_due(work: Work) -> float:
    query = "SELECT extract(epoch FROM due_at - now())::float8 FROM deliveries"
    return float(str(work.scalar(query)))


def in_two_hours() -> str:
    return format_datetime(datetime.now(tz=UTC) + timedelta(hours=2))


@pytest.mark.parametrize(
    ("asked", "least"),
    [
        (lambda: "7200", 7100),
        (in_two_hours, 7000),
        (lambda: "soon", 0),
        (lambda: "99999999999999999999", 0),
    ],
    ids=["seconds", "a moment", "no number", "too large a number"],
)
def test_an_endpoint_that_asks_for_time_is_given_it(
    work: Work, secrets: Secrets, asked: Callable[[], str], least: float
) -> None:
    with answering(429, **{"Retry-After": asked()}) as url:
        end_a_batch(work, url)
        sender(work, secrets).deliver_next()

    assert least <= seconds_until_due(work) < max(least, 10) * 1.1


def test_nobody_listening_is_tried_again(work: Work, secrets: Secrets) -> None:
    end_a_batch(work, "http://127.0.0.1:1/hook")

    sender(work, secrets).deliver_next()

    state, status, why = outcome(work)
    assert (state, status) == ("pending", None)
    assert why is not None
    assert why.startswith("ConnectError: ")
    assert "refused" in why


def test_an_answer_that_is_not_http_is_not_repeated_to_the_tenant(
    work: Work, secrets: Secrets
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        end_a_batch(work, f"http://127.0.0.1:{port}/hook")
        answering_once = Thread(target=_say, args=(server, b"SSH-2.0 secret\r\n\r\n"))
        answering_once.start()

        sender(work, secrets).deliver_next()
        answering_once.join()

    assert outcome(work) == ("pending", None, "RemoteProtocolError")


def _say(server: socket.socket, answer: bytes) -> None:
    client, _ = server.accept()
    with client:
        client.sendall(answer)
        while client.recv(2**16):  # what comes unread would reset the connection
            pass


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
@pytest.mark.law("P29")
def test_a_private_address_is_never_called(work: Work, secrets: Secrets, host: str) -> None:
    with receiving() as receiver:
        port = receiver.url.rsplit(":", 1)[1]
        end_a_batch(work, f"http://{host}:{port}")
        sender(work, secrets, allow_private=False).deliver_next()

    assert outcome(work) == ("pending", None, "the host has an address that is not public")


@contextmanager
def dripping() -> Iterator[str]:
    """A server that sends a byte of an endless answer now and then; its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not done.wait(0.05):
                connection.sendall(b"x")

    thread = Thread(target=drip)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        done.set()
        thread.join()
        listener.close()


def test_an_attempt_ends_however_slowly_the_endpoint_drips(
    work: Work, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_WHOLE_ATTEMPT", 0.5)
    with dripping() as url:
        end_a_batch(work, url)
        sender(work, secrets).deliver_next()

    state, status, why = outcome(work)
    assert (state, status) == ("pending", None)
    assert why is not None
    assert why.startswith("ReadTimeout: ")


def test_with_nothing_due_there_is_nothing_to_do(work: Work, secrets: Secrets) -> None:
    assert not sender(work, secrets).deliver_next()
