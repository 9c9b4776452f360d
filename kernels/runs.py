"""Which keys the sequences of a step meet together, and which each meets alone.  Integers only.

Sequences whose tables begin with the same blocks have the same tokens there, so their queries can
meet those keys at once: a run of many chunks.  What only one sequence has is a run of its own.  A
row meets its runs from its first key to its last.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import lcm
from typing import NamedTuple

import numpy as np


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


# Whether so many chunks should meet so many keys together.
Worth = Callable[[Sequence[Chunk], int], bool]


def chunks_of(seq_lens: np.ndarray, query_starts: np.ndarray) -> list[Chunk]:
    """A step's chunks and decodes, as `AttentionMetadata` has them, without padding."""
    counts = np.diff(query_starts)
    return [
        Chunk(seq, row, seq_len - count, seq_len)
        for seq, (row, count, seq_len) in enumerate(
            zip(query_starts.tolist(), counts.tolist(), seq_lens.tolist(), strict=False)
        )
        if seq_len
    ]


def private_runs(chunks: Sequence[Chunk]) -> Iterator[Run]:
    """Yield runs of which none is that of several chunks."""
    yield from (Run(0, [chunk], 0, chunk.end, ends=True) for chunk in chunks)


def shared_runs(
    chunks: Sequence[Chunk], tables: np.ndarray, *, block_size: int, tile: int, worth: Worth
) -> Iterator[Run]:
    """Yield runs that cover what every chunk sees, each row's in the order of its keys.

    tables: [num_seqs, max_blocks]
    tile:   tokens; what is shared is a multiple of it and of block_size
    worth:  decides on each run of several chunks; refused, they meet those keys further down
    """
    ranked, common = _side_by_side(chunks, tables, block_size=block_size, tile=tile)
    todo = [(0, len(ranked), 0, 0)]
    while todo:
        low, high, first, level = todo.pop()
        if high - low == 1:
            yield Run(level, [ranked[low]], first, ranked[low].end, ends=True)
        if high - low <= 1:
            continue
        end = min(common[low : high - 1])
        if end > first and worth(ranked[low:high], end - first):
            yield Run(level, ranked[low:high], first, end, ends=False)
            first, level = end, level + 1
        forks = [at + 1 for at in range(low, high - 1) if common[at] == end]
        todo += [(*bounds, first, level) for bounds in pairwise([low, *forks, high])]


def _side_by_side(
    chunks: Sequence[Chunk], tables: np.ndarray, *, block_size: int, tile: int
) -> tuple[list[Chunk], list[int]]:
    """The chunks in an order in which those that share stand together, and how many tokens each has
    in common with the next: such as were computed before this step, in whole tiles and blocks."""
    unit = lcm(block_size, tile)
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
