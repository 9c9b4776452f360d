"""Batches of scripted prompts, and how a client sees them end."""

from collections.abc import Mapping
from typing import Any

from openai.types import Batch

from tests.chaos.scale import full_or_short
from tests.e2e.client import Client, counts
from tests.fixtures.scripted_engine import answer_to

_GROUP = 20  # rows that share a prefix, and so a shard
_PREFIX = "this part is the same in every prompt of its group, " * 6


class FaultClient(Client):
    """Rows are named by their `custom_id` and told apart by what they say."""

    patience = full_or_short(900, 120)

    def submit_texts(self, texts: Mapping[str, str], **extra: Any) -> Batch:
        """A batch with a row for each text, cut into shards of some twenty rows."""
        rows = [
            self.row(
                custom_id,
                messages=[
                    {"role": "system", "content": f"{place // _GROUP} {_PREFIX}"},
                    {"role": "user", "content": text},
                ],
            )
            for place, (custom_id, text) in enumerate(texts.items())
        ]
        return self.submit(rows, **extra)

    def answers(self, batch: Batch) -> dict[str, str]:
        return {
            line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"]
            for line in self.read(batch.output_file_id)
        }

    def failures(self, batch: Batch) -> dict[str, str]:
        """The code of each line of the error file."""
        return {line["custom_id"]: line["error"]["code"] for line in self.read(batch.error_file_id)}


def right_answers(texts: Mapping[str, str]) -> dict[str, str]:
    return {custom_id: answer_to(text) for custom_id, text in texts.items()}


def plain_texts(count: int, *, seconds: float = 0.0) -> dict[str, str]:
    """Rows that are answered, each after `seconds`."""
    return {f"r{n}": f"slow {seconds} row {n}" for n in range(count)}


def some_are_done(batch: Batch) -> bool:
    return counts(batch)[1] > 0
