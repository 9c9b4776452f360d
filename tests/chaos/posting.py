"""A client that posts single jobs, whatever answers or does not."""

import time
from typing import Any

import httpx

from tests.chaos.batches import FaultClient
from tests.fixtures.scripted_engine import answer_to

_PATIENCE = 5.0  # seconds, with one try


class Poster:
    """Every job is posted under its own Idempotency-Key until a 2xx says that it is accepted."""

    def __init__(self, client: FaultClient) -> None:
        self.accepted = dict[str, str]()  # the id of the job, by what it says
        self._client = client
        self._name = f"job {time.monotonic_ns()}"  # no other run's

    def post_one(self) -> None:
        text = f"{self._name} {len(self.accepted)}"
        job_id = self._post(text)
        if job_id is not None:
            self.accepted[text] = job_id

    def check(self) -> None:
        """Law 1, once all is well again: what was accepted is done, and nothing was made twice."""
        said = {text: self._answer(job_id) for text, job_id in self.accepted.items()}
        assert said == {text: answer_to(text) for text in self.accepted}
        assert len({*self.accepted.values()}) == len(self.accepted)

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
