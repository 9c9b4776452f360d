"""Groups a window's rows by the prefixes that they share and packs each group into shards.

A prefix is found by content: a system prompt, few-shot examples, a document before the question.
Its key is the hash of a prompt's first 256, 512, 1024 … bytes: the same in every window and
job of a tenant, and the claim can bring equal ones together.  A row goes with the longest prefix
that enough rows share; within a shard rows are in the order of their text, so that what they share
beyond it is neighbours' too.  Pure.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from jobs.planning import RequestRow

# A shard is small enough that a death costs little and large enough that S3 sees few objects.
MAX_SHARD_ROWS = 512
MAX_SHARD_COST = 256 * 1024  # tokens, see jobs/fairness.py

# Fewer rows than this that share a longer prefix stay with the group that shares a shorter one:
# a shard of their own would cost more than what it saves.
MIN_GROUP = 16

# Whoever runs one shard of an object reads all of it.
BUNDLE_ROWS = 64
_BUNDLE_BYTES = 2**20

_LEVELS = tuple(256 << level for level in range(9))  # bytes of a prompt, up to 64 KiB


@dataclass(slots=True)  # not frozen: to make it would cost three times as much
class PlannedRow:
    """One request, ready for a shard's input object.

    text: its prompt as JSON, as far as prefixes are looked for.
    prefix_keys: of each level that the prompt is long enough for, the shortest first.
    line: ends in a line feed.
    """

    request: RequestRow
    text: bytes
    prefix_keys: tuple[str, ...]
    cost: int
    line: bytes

    @property
    def index(self) -> int:
        return self.request.index


@dataclass(frozen=True, slots=True)
class Pack:
    """The rows of one shard.  `prefix_key` is None where they share none."""

    prefix_key: str | None
    cost: int
    rows: list[PlannedRow]


def prompt_text(body: dict[str, Any]) -> bytes:
    """A body's prompt as text in which equal beginnings are equal.  Whatever the body holds; a bad
    one is refused when it runs."""
    prompt = body.get("messages", body.get("prompt"))
    return orjson.dumps(prompt)[: _LEVELS[-1]]


def salted(tenant_salt: str) -> "hashlib.blake2b":
    """What the names of a tenant's prefixes begin from, so that no two tenants share one."""
    return hashlib.blake2b(tenant_salt.encode(), digest_size=16)


def prefix_keys(salted: "hashlib.blake2b", text: bytes) -> tuple[str, ...]:
    """The names of a prompt's beginnings."""
    digest = salted.copy()
    keys, start = list[str](), 0
    for level in _LEVELS:
        if level > len(text):
            break
        digest.update(text[start:level])
        keys.append(digest.copy().hexdigest())
        start = level
    return tuple(keys)


def pack(rows: list[PlannedRow], *, most_rows: int = MAX_SHARD_ROWS) -> Iterator[Pack]:
    """Yield shards, groups in the order of their text and last the rows that share too little."""
    shared = Counter(key for row in rows for key in row.prefix_keys)
    groups = dict[str | None, list[PlannedRow]]()
    for row in sorted(rows, key=lambda row: row.text):
        groups.setdefault(_deepest(row, shared), []).append(row)
    alone = groups.pop(None, [])
    for key, group in groups.items():
        yield from _cut(key, group, most_rows)
    yield from _cut(None, alone, most_rows)


def bundled(packs: Iterable[Pack]) -> Iterator[list[Pack]]:
    """Runs of small packs that share an object: rows that may get long answers are each a shard,
    and a store takes a few objects sooner than a million."""
    held, rows, size = list[Pack](), 0, 0
    for pack in packs:
        more = sum(len(row.line) for row in pack.rows)
        if held and (rows + len(pack.rows) > BUNDLE_ROWS or size + more > _BUNDLE_BYTES):
            yield held
            held, rows, size = [], 0, 0
        held.append(pack)
        rows, size = rows + len(pack.rows), size + more
    if held:
        yield held


def _deepest(row: PlannedRow, shared: Counter[str]) -> str | None:
    return next((key for key in reversed(row.prefix_keys) if shared[key] >= MIN_GROUP), None)


def _cut(key: str | None, rows: Iterable[PlannedRow], most_rows: int) -> Iterator[Pack]:
    held, cost = list[PlannedRow](), 0
    for row in rows:
        if held and (len(held) == most_rows or cost + row.cost > MAX_SHARD_COST):
            yield Pack(key, cost, held)
            held, cost = [], 0
        held.append(row)
        cost += row.cost
    if held:
        yield Pack(key, cost, held)
