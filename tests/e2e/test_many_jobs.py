"""1,000 single jobs in flight: batched by the engine like a file's rows, and no thread for each."""

import asyncio
import json
import os
import re
import resource
import signal
from pathlib import Path
from typing import Any, Final

import httpx

from tests.e2e.client import CHAT_COMPLETIONS, Client
from tests.fixtures.stack import UpStack

JOBS: Final = 1000
SENDERS: Final = 16
TOKENS: Final = 16
# The API's threads are those of its pools, whoever waits: routes, looks, connections.
THREADS: Final = 100
_RUNNING = re.compile(r"^gristmill_engine_running\{.*\} (\S+)$", re.MULTILINE)


class Scene:
    """A stack whose worker stands still until every job was accepted."""

    def __init__(self, stack: UpStack, client: Client) -> None:
        self._api = Path(f"/proc/{stack.facts.pids['api']}/status")
        self._worker: int = stack.facts.pids["workers"][0]
        self._metrics = stack.facts.metrics_urls[1]
        self._client = client
        self._turn = asyncio.Semaphore(SENDERS)
        self._accepted = 0
        self.threads = 0  # of the API, at most, while all wait
        self.running = 0.0  # requests in one step of the engine, at most

    async def play(self) -> list[dict[str, Any]]:
        """The jobs as they ended."""
        os.kill(self._worker, signal.SIGSTOP)
        async with httpx.AsyncClient(
            base_url=self._client.facts.api_url,
            headers=self._client.http.headers,
            timeout=60,
            trust_env=False,
        ) as http:
            jobs = asyncio.gather(*(self._run(http) for _ in range(JOBS)))
            while not jobs.done():
                await self._look(http)
            return await jobs

    async def _run(self, http: httpx.AsyncClient) -> dict[str, Any]:
        """One job, sent in its turn and then waited for beside all others."""
        message = {"role": "user", "content": "go on"}
        body = {"messages": [message], "max_tokens": TOKENS, "ignore_eos": True}
        new = {"model": self._client.model, "endpoint": CHAT_COMPLETIONS, "body": body}
        async with self._turn:
            answer = await http.post("/v1/jobs", json=new)
        job: dict[str, Any] = answer.raise_for_status().json()
        self._accepted += 1
        while job["status"] in ("queued", "in_progress"):
            job = await self._read(f"/v1/jobs/{job['id']}?wait=60")
        return job

    async def _read(self, path: str) -> dict[str, Any]:
        """By a connection of its own: httpx's pool walks all of a thousand for each request."""
        url = httpx.URL(self._client.facts.api_url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        key = f"Authorization: Bearer {self._client.facts.api_key}"
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {url.host}\r\n{key}\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        assert b" 200 " in head.partition(b"\r\n")[0]
        read: dict[str, Any] = json.loads(body)
        return read

    async def _look(self, http: httpx.AsyncClient) -> None:
        threads = re.search(r"^Threads:\s*(\d+)$", self._api.read_text(encoding="ascii"), re.M)
        assert threads is not None
        self.threads = max(self.threads, int(threads[1]))
        if self._accepted < JOBS:
            await asyncio.sleep(0.1)
            return
        os.kill(self._worker, signal.SIGCONT)
        shown = _RUNNING.search((await http.get(self._metrics)).text)
        assert shown is not None
        self.running = max(self.running, float(shown[1]))


def test_a_thousand_jobs_wait_at_once_without_a_thread_for_each_and_run_together(
    stack: UpStack, client: Client
) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is an open file
    scene = Scene(stack, client)

    jobs = asyncio.run(scene.play())

    assert {job["status"] for job in jobs} == {"completed"}
    assert {job["usage"]["output_tokens"] for job in jobs} == {TOKENS}
    assert len({job["id"] for job in jobs}) == JOBS
    assert scene.threads < THREADS
    assert scene.running >= 8
