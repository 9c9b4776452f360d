"""A client that posts single jobs all the while, whatever answers or does not."""

import threading
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import httpx

from tests.chaos.batches import FaultClient
from tests.fixtures.scripted_engine import answer_to

_PAUSE = 0.2  # seconds
_PATIENCE = 5.0  # seconds, with one try


class Poster(AbstractContextManager["Poster"]):
    """Every job is posted under its own Idempotency-Key until a 2xx says that it is accepted."""

    def __init__(self, client: FaultClient) -> None:
        self.accepted = dict[str, str]()  # the id of the job, by what it says
        self._client = client
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def check(self) -> None:
        """Law 1, once all is well again: what was accepted is done, and nothing was made twice."""
        said = {text: self._answer(job_id) for text, job_id in self.accepted.items()}
        assert said == {text: answer_to(text) for text in self.accepted}
        assert len({*self.accepted.values()}) == len(self.accepted)

    def _run(self) -> None:
        key = time.monotonic_ns()  # no other run's
        while not self._stopping.wait(_PAUSE):
            text = f"job {key} {len(self.accepted)}"
            job_id = self._post(text)
            if job_id is not None:
                self.accepted[text] = job_id

    def _post(self, text: str) -> str | None:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4}
        job = {"model": self._client.model, "endpoint": "/v1/chat/completions", "body": body}
        try:
            answer = self._client.http.post(
                "/v1/jobs", json=job, headers={"Idempotency-Key": text}, timeout=_PATIENCE
            )
        except httpx.TransportError:
            return None
        return str(answer.json()["id"]) if answer.is_success else None

    def _answer(self, job_id: str) -> str:
        job: Any = self._client.http.get(f"/v1/jobs/{job_id}?wait=30").json()
        return str(job["response"]["body"]["choices"][0]["message"]["content"])
