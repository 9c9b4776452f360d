"""Groups a window's rows by shared prefix and packs each group into shards.

Rows that share a prefix go together, so that one worker computes it once; equal prefixes get equal
keys across windows and jobs of a tenant, so that the claim can bring them together.  Pure.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

# A shard is small enough that a death costs little and large enough that S3 sees few objects.
MAX_SHARD_ROWS = 256
MAX_SHARD_COST = 256 * 1024  # tokens, see jobs/fairness.py

# Characters of a plain prompt that stand for its prefix.
_PROMPT_HEAD = 1024


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One request, ready for a shard's input object.  `line` ends in a line feed."""

    index: int
    prefix_key: str
    cost: int
    line: bytes
    body_digest: str


@dataclass(frozen=True, slots=True)
class Pack:
    """The rows of one shard.  `prefix_key` is None where they share none."""

    prefix_key: str | None
    cost: int
    rows: list[PlannedRow]


def prefix_key(tenant_salt: str, body: dict[str, Any]) -> str:
    """Names what a body has in common with its like: all messages but the last, or the head of a
    plain prompt.  Whatever the body holds; a bad one is refused when it runs."""
    messages, prompt = body.get("messages"), body.get("prompt")
    if isinstance(messages, list):
        shared: object = messages[:-1]
    else:
        shared = prompt[:_PROMPT_HEAD] if isinstance(prompt, str) else None
    text = orjson.dumps([tenant_salt, body.get("model"), shared])
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def pack(rows: Iterable[PlannedRow]) -> Iterator[Pack]:
    """Yield shards: one group after another, then together the rows that share with nobody."""
    groups = dict[str, list[PlannedRow]]()
    for row in rows:
        groups.setdefault(row.prefix_key, []).append(row)
    loners = [group[0] for group in groups.values() if len(group) == 1]
    for key, group in groups.items():
        if len(group) > 1:
            yield from _cut(key, group)
    yield from _cut(None, loners)


def _cut(key: str | None, rows: list[PlannedRow]) -> Iterator[Pack]:
    held, cost = list[PlannedRow](), 0
    for row in rows:
        if held and (len(held) == MAX_SHARD_ROWS or cost + row.cost > MAX_SHARD_COST):
            yield Pack(key, cost, held)
            held, cost = [], 0
        held.append(row)
        cost += row.cost
    if held:
        yield Pack(key, cost, held)
