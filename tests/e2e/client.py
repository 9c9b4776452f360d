"""What a user of the API would write: the official client, and plain HTTP for our own calls."""

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ClassVar, Final

import httpx
from openai import OpenAI
from openai.types import Batch
from pydantic import BaseModel

from cli.background_stack import Facts

CHAT_COMPLETIONS: Final = "/v1/chat/completions"

TERMINAL = ("completed", "failed", "expired", "cancelled")
_LOOK_EVERY = 0.05


class Client(AbstractContextManager["Client"]):
    patience: ClassVar[int] = 120  # seconds, for anything here

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.openai = OpenAI(base_url=f"{facts.api_url}/v1", api_key=facts.api_key, max_retries=5)
        self.http = httpx.Client(
            base_url=facts.api_url,
            headers={"Authorization": f"Bearer {facts.api_key}"},
            timeout=70,
            trust_env=False,
        )
        self.model = self.openai.models.list().data[0].id

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.http.close()
        self.openai.close()

    def row(self, custom_id: str, text: str = "hello", **body: Any) -> dict[str, Any]:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4} | body
        return {
            "custom_id": custom_id,
            "method": "POST",
            "url": CHAT_COMPLETIONS,
            "body": {"model": self.model} | body,
        }

    def submit(self, rows: Iterable[dict[str, Any]], **extra: Any) -> Batch:
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        return self.submit_file(data, **extra)

    def submit_file(self, data: bytes, **extra: Any) -> Batch:
        file = self.openai.files.create(file=("input.jsonl", data), purpose="batch")
        return self.openai.batches.create(
            input_file_id=file.id,
            endpoint=CHAT_COMPLETIONS,
            completion_window="24h",
            extra_body=extra or None,
        )

    def wait(self, batch: Batch, *, until: Sequence[str] = TERMINAL) -> Batch:
        """The batch once its status is one of `until`."""
        return self.wait_for(batch, lambda seen: seen.status in until)

    def wait_for(self, batch: Batch, there: Any) -> Batch:
        """The batch as soon as `there(batch)` holds."""
        deadline = time.monotonic() + self.patience
        while not there(batch):
            assert time.monotonic() < deadline, f"still {batch.status}: {batch.request_counts}"
            time.sleep(_LOOK_EVERY)
            batch = self.openai.batches.retrieve(batch.id)
        return batch

    def read(self, file_id: str | None) -> list[dict[str, Any]]:
        """The lines of an output or error file; none where there is no file."""
        if file_id is None:
            return []
        return [
            json.loads(line) for line in self.openai.files.content(file_id).content.splitlines()
        ]

    def ids(self, file_id: str | None) -> list[str]:
        return [line["custom_id"] for line in self.read(file_id)]


def extra(model: BaseModel, name: str) -> Any:
    """A field of ours that the official client's types do not know."""
    assert model.model_extra is not None
    return model.model_extra[name]


def counts(batch: Batch) -> tuple[int, int, int]:
    """(total, completed, failed)"""
    assert batch.request_counts is not None
    found = batch.request_counts
    return found.total, found.completed, found.failed
