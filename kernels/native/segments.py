"""How the C path cuts a step's attention into segments, and in which order they are computed.

A segment is a run (`kernels.runs`), or so much of it as the kernel takes at once.  A row meets its
segments from its first key to its last; those of one level may run at once.

Only whole tiles are shared: then a row's result is the same, bit for bit, shared or not.
Integers only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.native.library import MAX_VECTORS, TILE
from kernels.runs import Chunk, Run, private_runs, shared_runs

# Tokens that a shared segment must save from being read again, or it is not worth the while.
WORTH_SHARING = 128
# Sequences for each thread that are work enough without splitting each of them by heads.
ENOUGH_A_THREAD = 8


@dataclass(slots=True)
class Segments:
    """As the kernel reads them.

    sharing: query heads that share a KV head
    rows:   query rows, a segment's side by side
    levels: of each level its segments: (table, first and end key, first and end in `rows`, first
            and end KV head, whether they are their rows' first, and their last)
    """

    sharing: int
    kv_heads: int
    window: int | None
    rows: list[int] = field(default_factory=list)
    levels: list[list[tuple[int, ...]]] = field(default_factory=list)

    def cut(
        self, chunks: Sequence[Chunk], tables: np.ndarray, *, block_size: int, threads: int
    ) -> None:
        """Cut all that a step's chunks meet.

        Under a window nothing is shared: what two rows both see, each sees from another key on.
        """
        shared, whole = self.window is None, len(chunks) >= ENOUGH_A_THREAD * threads
        for run in cut_into_runs(chunks, tables, block_size=block_size, shared=shared):
            self.add(run, whole=whole)

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

    def hide(self, rows: list[int]) -> None:
        """Rows that meet no key: what they get is zero."""
        for row in rows:
            bounds = (len(self.rows), len(self.rows) + 1)
            self.rows.append(row)
            for head in range(self.kv_heads):
                self._level(0).append((0, 0, 0, *bounds, head, head + 1, True, True))

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


def cut_into_runs(
    chunks: Sequence[Chunk], tables: np.ndarray, *, block_size: int, shared: bool
) -> Iterator[Run]:
    """shared: whether a run may be that of several chunks"""
    if not shared:
        return private_runs(chunks)
    return shared_runs(chunks, tables, block_size=block_size, tile=TILE, worth=_saves_enough)


def _saves_enough(chunks: Sequence[Chunk], num_keys: int) -> bool:
    return num_keys * (len(chunks) - 1) >= WORTH_SHARING
