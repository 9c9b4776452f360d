"""A small HTTP server on loopback that keeps what is posted to it: the demo's end of a webhook."""

import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from cli.errors import CommandFailed
from cli.ports import HOST


@dataclass(frozen=True, slots=True)
class Posted:
    """The body as it came: a signature is over bytes, not over what they mean."""

    headers: Mapping[str, str]
    body: bytes


class Receiver:
    """Listens while `receiving`."""

    def __init__(self) -> None:
        self._posted: queue.Queue[Posted] = queue.Queue()
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}/webhook"

    def next(self, *, timeout: float) -> Posted:
        """The next post, waiting up to `timeout` seconds for it."""
        try:
            return self._posted.get(timeout=timeout)
        except queue.Empty as error:
            raise CommandFailed(f"no webhook came within {timeout:.0f} s") from error

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        posted = self._posted

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posted.put(Posted(dict(self.headers.items()), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Keep quiet: the demo's output is for people."""

        return Handler


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = Thread(target=receiver.serve, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.close()
        thread.join()
