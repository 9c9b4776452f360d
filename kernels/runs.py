"""Which keys the sequences of a step meet together, and which each meets alone.  Integers only.

Sequences whose tables begin with the same blocks have the same tokens there, so their queries can
meet those keys at once: a run of many chunks.  What only one sequence has is a run of its own.  A
row meets its runs from its first key to its last.
"""

from collections.abc import Callable, Iterator, Sequence
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


class Span(NamedTuple):
    """The keys `first` to `end` that several sequences have in the same blocks.

    members: rows of the block tables; level: how many spans each of them has before it
    """

    level: int
    members: np.ndarray
    first: int
    end: int


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
    chunks: Sequence[Chunk],
    tables: np.ndarray,
    *,
    block_size: int,
    tile: int,
    worth: Callable[[Sequence[Chunk], int], bool],
) -> Iterator[Run]:
    """Yield runs that cover what every chunk sees, each row's in the order of its keys.

    As `shared_spans` finds them, and what is left of each chunk.
    """
    spans = shared_spans(
        tables[[chunk.table for chunk in chunks]],
        np.array([chunk.start for chunk in chunks]),
        block_size=block_size,
        tile=tile,
        worth=lambda members, num_keys: worth([chunks[at] for at in members], num_keys),
    )
    levels, firsts = [0] * len(chunks), [0] * len(chunks)
    for level, members, first, end in spans:
        yield Run(level, [chunks[at] for at in members], first, end, ends=False)
        for at in members:
            levels[at], firsts[at] = level + 1, end
    for level, chunk, first in zip(levels, chunks, firsts, strict=True):
        yield Run(level, [chunk], first, chunk.end, ends=True)


def shared_spans(
    tables: np.ndarray,
    starts: np.ndarray,
    *,
    block_size: int,
    tile: int,
    worth: Callable[[np.ndarray, int], bool],
) -> Iterator[Span]:
    """Yield what sequences have in common, from the first key on.

    tables: [num_seqs, max_blocks]
    starts: [num_seqs], how many tokens of each were computed before this step, and may be shared
    tile:   tokens; what is shared is a multiple of it and of block_size
    worth:  whether so many keys should be met together; if not, members meet them further down
    """
    order, common = _side_by_side(tables, starts, block_size=block_size, tile=tile)
    todo = [(0, len(order), 0, 0)]
    while todo:
        low, high, first, level = todo.pop()
        between = common[low : high - 1]
        end = int(between.min(initial=2**31))
        if first < end < 2**31 and worth(order[low:high], end - first):
            yield Span(level, order[low:high], first, end)
            first, level = end, level + 1
        bounds = np.concatenate(([low], np.flatnonzero(between == end) + low + 1, [high]))
        several = np.flatnonzero(np.diff(bounds) > 1)
        todo += [(int(bounds[at]), int(bounds[at + 1]), first, level) for at in several]


def _side_by_side(
    tables: np.ndarray, starts: np.ndarray, *, block_size: int, tile: int
) -> tuple[np.ndarray, np.ndarray]:
    """The sequences in an order in which those that share stand together, and how many tokens each
    has in common with the next, in whole tiles and blocks."""
    unit = lcm(block_size, tile)
    known = np.maximum(starts, 0) // unit * (unit // block_size)  # blocks
    width = int(known.max(initial=0))
    if width == 0:
        return np.arange(len(starts)), np.zeros(max(0, len(starts) - 1), dtype=np.int64)
    sharable = np.where(np.arange(width) < known[:, None], tables[:, :width], 0)
    order = _rank(sharable)
    ranked, counts = sharable[order], known[order]
    # One column more, in which all differ.
    differ = np.pad(ranked[1:] != ranked[:-1], ((0, 0), (0, 1)), constant_values=True)
    common = np.minimum(differ.argmax(axis=1), np.minimum(counts[1:], counts[:-1]))
    return order, common * block_size // unit * unit


def _rank(rows: np.ndarray) -> np.ndarray:
    """An order of the rows in which those with a beginning in common stand together."""
    size = rows.shape[1] * rows.itemsize
    # As bytes: that is one comparison of memory, where numpy would compare entry by entry.
    packed = rows.tobytes()
    keys = [packed[at : at + size] for at in range(0, len(packed), size)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
