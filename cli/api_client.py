"""The API as a command needs it: patient with a server that is away, streaming both ways."""

import hashlib
import io
import ipaddress
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx

from cli.errors import CommandFailed

# Seconds before another try.  A server that restarts is back within them.
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
_AWAY = (429, 502, 503, 504)
_TIMEOUT = httpx.Timeout(10, read=120, write=120)

Watch = Callable[[int], object]
"""Hears how many bytes of a file have passed."""

Answer = dict[str, Any]


class Api(AbstractContextManager["Api"]):
    """`deployment` is what this one stays, where its address does not."""

    def __init__(self, base_url: str, api_key: str, *, deployment: str | None = None) -> None:
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        self.deployment = deployment or self.base_url
        self._http = httpx.Client(
            base_url=self.base_url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=_TIMEOUT,
            trust_env=not _is_loopback(self.base_url),  # no proxy leads to this machine
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def upload(self, path: Path, *, key: str, watch: Watch) -> Answer:
        """POST a file for a batch, holding none of it in memory."""

        def send() -> httpx.Response:
            with _Watched(path, watch) as file:
                return self._http.post(
                    "/v1/files",
                    data={"purpose": "batch"},
                    files={"file": (path.name, file)},
                    headers={"Idempotency-Key": key},
                )

        return _json(self._patiently(send))

    def post(self, path: str, body: Mapping[str, Any], *, key: str | None = None) -> Answer:
        """With a `key` the server does it once, however often it is told."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return _json(self._patiently(lambda: self._http.post(path, json=body, headers=headers)))

    def get(self, path: str) -> Answer:
        return _json(self._patiently(lambda: self._http.get(path)))

    def download(self, file: Mapping[str, Any], into: Path, *, watch: Watch) -> None:
        """Write a file that a receipt names: whole and with the right hash, or not at all."""
        part = into.with_name(f"{into.name}.part")

        def fetch() -> httpx.Response:
            path = f"/v1/files/{file['file_id']}/content"
            with self._http.stream("GET", path) as answer:
                if answer.is_success:
                    _write(answer, part, sha256=file["sha256"], watch=watch)
                else:
                    answer.read()
                return answer

        self._patiently(fetch)
        part.replace(into)

    def _patiently(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        """The answer, at the latest of the sixth try.  Every call here may be repeated."""
        for pause in _PAUSES:
            try:
                answer = send()
            except httpx.TransportError:
                time.sleep(pause)
                continue
            if answer.status_code not in _AWAY:
                return _checked(answer)
            time.sleep(pause)
        try:
            return _checked(send())
        except httpx.TransportError as error:
            raise CommandFailed(f"the API at {self.base_url} does not answer: {error}") from error


class _Watched(io.FileIO):
    """A file that tells how far it has been read."""

    def __init__(self, path: Path, watch: Watch) -> None:
        super().__init__(path, "rb")
        self._watch = watch

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size)
        self._watch(self.tell())
        return data or b""


def _write(answer: httpx.Response, part: Path, *, sha256: str, watch: Watch) -> None:
    digest, size = hashlib.sha256(), 0
    with part.open("wb") as file:
        for chunk in answer.iter_bytes():
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            watch(size)
    if digest.hexdigest() != sha256:
        raise httpx.ReadError("the bytes that came are not the file's")  # to be tried again


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    raise CommandFailed(f"the API answered {answer.status_code}: {_message(answer)}")


def _message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):  # a proxy's page
        return answer.reason_phrase


def _json(answer: httpx.Response) -> Answer:
    found: Answer = answer.json()
    return found


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
