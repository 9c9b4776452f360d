"""`python -m api`: serves the API until SIGTERM or Ctrl-C, then finishes what it has begun."""

import argparse
import resource
import signal
import socket
import sys

import uvicorn
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError

from api import logs
from api.app import create_app
from api.services import Services, connected
from api.settings import ApiSettings
from jobs import collector, reading
from jobs.database import cause
from jobs.errors import StorageUnavailable
from jobs.settings import SettingsUnusable, read
from jobs.storage_probe import probe

# Seconds that open requests have after SIGTERM.  Waiting ones are let go at once.
_GRACE = 20
_OPEN_FILES = 65_536
_BACKLOG = 2048


class CannotStart(Exception):
    """One sentence that says what is wrong and what to do."""


def main() -> None:
    options = _options()
    settings = read(ApiSettings)
    logs.log_to_stderr(settings.logs.format)
    _allow_many_connections()
    listener = _listen(options.host, options.port)
    with connected(settings, stopping=lambda: server.should_exit) as services:
        _check(services)
        app = create_app(services, beat_ttl=settings.leases.ttl)
        server = uvicorn.Server(
            uvicorn.Config(
                app, log_config=None, timeout_graceful_shutdown=_GRACE, server_header=False
            )
        )
        # uvicorn raises its signal again once it has stopped; a clean stop is no failure.
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, lambda *_: sys.exit(0))
        collector.spare_what_stays()
        server.run(sockets=[listener])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m api", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    return parser.parse_args()


def _allow_many_connections() -> None:
    """Each client that waits is an open file, and shells allow 1,024 of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _listen(host: str, port: int) -> socket.socket:
    """Take the port before anything else is done, so that a second start touches nothing."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise CannotStart(
            f"{host}:{port} cannot be used: {error}. Choose another --port."
        ) from None
    return listener


def _check(services: Services) -> None:
    try:
        with services.sessions() as session:
            reading.list_models(session)
    except ProgrammingError:
        raise CannotStart(
            "The database of DATABASE__URL lacks our tables; run `gristmill migrate` first."
        ) from None
    except SQLAlchemyError as error:
        raise CannotStart(
            f"Postgres does not answer at DATABASE__URL: {cause(error)}."
            " Start it, or correct the URL."
        ) from None
    try:
        probe(services.storage)
    except StorageUnavailable as error:
        raise CannotStart(f"The bucket of STORAGE__… cannot be used: {error}.") from None


if __name__ == "__main__":
    try:
        main()
    except (CannotStart, SettingsUnusable) as error:
        sys.exit(f"gristmill: {error}")
