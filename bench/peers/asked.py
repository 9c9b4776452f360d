"""A workload file as a peer needs it: token ids, how many more, and what is shared."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, greedy and past the end token.

    prefix_len: tokens at the prompt's start that others begin with too
    """

    prompt: list[int]
    max_tokens: int
    prefix_len: int = 0


def read_asked(file: Path) -> list[Asked]:
    """The requests of a file that `bench.workloads` wrote."""
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return [Asked(row["prompt_ids"], row["max_tokens"], row.get("prefix_len", 0)) for row in rows]


def shared_prefixes(requests: Iterable[Asked]) -> list[list[int]]:
    """Each once: what a peer that shares only what is computed already must be given beforehand."""
    found = {tuple(each.prompt[: each.prefix_len]) for each in requests if each.prefix_len}
    return [list(prefix) for prefix in sorted(found)]


def warm_up(requests: Sequence[Asked]) -> Asked:
    """A few tokens that no prompt begins with."""
    return Asked(requests[0].prompt[:-9:-1], max_tokens=4)
