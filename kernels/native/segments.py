"""How a step's attention is cut into segments, and in which order they are computed.

Sequences whose tables begin with the same blocks have the same tokens there, so their queries meet
those keys together: a segment of many rows.  What only one sequence has is a segment of its own.
A row meets its segments from its first key to its last; those of one level may run at once.

Only whole tiles are shared: then a row's result is the same, bit for bit, shared or not.
Integers only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import lcm
from typing import NamedTuple

import numpy as np

from kernels.native.library import MAX_VECTORS, TILE

# Tokens that a shared segment must save from being read again, or it is not worth the while.
WORTH_SHARING = 128
# From so many sequences on they are work enough for all threads without splitting each by heads.
MANY = 16


class Chunk(NamedTuple):
    """What one sequence has in the step: the query rows of its tokens `start` to `end`.

    table: its row of the block tables; row: its first query row
    """

    table: int
    row: int
    start: int
    end: int

    @property
    def rows(self) -> list[int]:
        return list(range(self.row, self.row + self.end - self.start))


class Run(NamedTuple):
    """The keys `first` to `end` that all of these chunks meet; `ends`: they meet none after it."""

    level: int
    chunks: list[Chunk]
    first: int
    end: int
    ends: bool


def cut_into_runs(
    chunks: Sequence[Chunk], tables: np.ndarray, *, block_size: int, shared: bool
) -> Iterator[Run]:
    """Yield runs that cover what every chunk sees, each row's in the order of its keys.

    tables: [num_seqs, max_blocks]; shared: whether a run may be that of several chunks
    """
    if not shared:
        yield from (Run(0, [chunk], 0, chunk.end, ends=True) for chunk in chunks)
        return
    ranked, common = _side_by_side(chunks, tables, block_size=block_size)
    todo = [(0, len(ranked), 0, 0)]
    while todo:
        low, high, first, level = todo.pop()
        if high - low == 1:
            yield Run(level, [ranked[low]], first, ranked[low].end, ends=True)
        if high - low <= 1:
            continue
        end = min(common[low : high - 1])
        if (end - first) * (high - low - 1) >= WORTH_SHARING:
            yield Run(level, ranked[low:high], first, end, ends=False)
            first, level = end, level + 1
        forks = [at + 1 for at in range(low, high - 1) if common[at] == end]
        todo += [(*bounds, first, level) for bounds in pairwise([low, *forks, high])]


def _side_by_side(
    chunks: Sequence[Chunk], tables: np.ndarray, *, block_size: int
) -> tuple[list[Chunk], list[int]]:
    """The chunks in an order in which those that share stand together, and how many tokens each has
    in common with the next: such as were computed before this step, in whole tiles and blocks."""
    unit = lcm(block_size, TILE)
    known = [each.start // unit * (unit // block_size) for each in chunks]  # blocks
    parts = [tables[each.table, :count] for each, count in zip(chunks, known, strict=True)]
    order = sorted(range(len(chunks)), key=lambda index: parts[index].tobytes())
    ranked = [chunks[index] for index in order]
    rows = tables[[each.table for each in ranked]]
    counts = np.array(known)[order]
    # One column more, in which all differ.
    differ = np.pad(rows[1:] != rows[:-1], ((0, 0), (0, 1)), constant_values=True)
    common = np.minimum(differ.argmax(axis=1), np.minimum(counts[1:], counts[:-1]))
    return ranked, (common * block_size // unit * unit).tolist()


@dataclass(slots=True)
class Segments:
    """As the kernel reads them.

    rows:   query rows, a segment's side by side
    levels: of each level its segments: (table, first and end key, first and end in `rows`, first
            and end KV head, whether they are their rows' first, and their last)
    """

    sharing: int
    kv_heads: int
    window: int | None
    rows: list[int] = field(default_factory=list)
    levels: list[list[tuple[int, ...]]] = field(default_factory=list)

    def add(self, run: Run, *, whole: bool) -> None:
        """whole: whether all KV heads of a single row are one segment"""
        rows = [row for chunk in run.chunks for row in chunk.rows]
        at_once = max(1, MAX_VECTORS // self.sharing)
        one_row = len(rows) == 1 and whole
        heads = max(1, at_once // len(rows)) if one_row else 1
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            first, end = run.first, run.end
            if run.ends:  # one chunk's, causal
                before = run.chunks[0].start + start
                end = before + len(part)
                first = first if self.window is None else max(first, before - self.window + 1)
            bounds = (len(self.rows), len(self.rows) + len(part))
            self.rows += part
            for head in range(0, self.kv_heads, heads):
                to = min(head + heads, self.kv_heads)
                self._level(run.level).append(
                    (run.chunks[0].table, first, end, *bounds, head, to, not run.level, run.ends)
                )

    def _level(self, number: int) -> list[tuple[int, ...]]:
        while len(self.levels) <= number:
            self.levels.append([])
        return self.levels[number]

    def longest_first(self) -> tuple[np.ndarray, np.ndarray]:
        """The segments [n, 9] and where each level begins [num_levels + 1], both int32."""
        for level in self.levels:
            level.sort(key=lambda each: (each[1] - each[2]) * (each[4] - each[3]))
        bounds = np.cumsum([0, *map(len, self.levels)], dtype=np.int32)
        listed = [segment for level in self.levels for segment in level]
        return np.array(listed, dtype=np.int32).reshape(-1, 9), bounds


def cut_into_segments(
    chunks: Sequence[Chunk],
    tables: np.ndarray,
    *,
    block_size: int,
    num_heads: int,
    kv_heads: int,
    window: int | None,
) -> Segments:
    """Under a window nothing is shared: what two rows both see, each sees from another key on."""
    segments = Segments(num_heads // kv_heads, kv_heads, window)
    runs = cut_into_runs(chunks, tables, block_size=block_size, shared=window is None)
    for run in runs:
        segments.add(run, whole=len(chunks) >= MANY)
    return segments
