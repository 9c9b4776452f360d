"""Decides what of a step is computed in parts: keys that a group shares, once for all of it, and
long contexts by several programs.  Integers only.

The rule counts bytes: those of K and V that need not be read again, less those of the parts' own
results.  Its constants are what `python -m bench.gpu` measures.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.attention_metadata import HostStep
from kernels.gpu.attention_parts import Heights, Part
from kernels.runs import Span, shared_spans

# Bytes of K and V that are read in the time that the launch of one kernel more takes, 8 us.
WORTH_A_LAUNCH = 40_000_000
# A part is cut until there are so many programs for each multiprocessor,
PROGRAMS_EACH = 2
# but not into fewer tokens than this: its results are written and read again.
MIN_PIECE = 512
# Pieces begin at multiples of it, in tokens, so that all tiles but the last are whole.
PIECE_UNIT = 64
FP32 = 4  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """itemsize: bytes of a number in the cache; prefill_rows: query rows that a program of the
    prefill kernel takes; multiprocessors: of the device; the rest: the rule"""

    num_heads: int
    kv_heads: int
    head_dim: int
    block_size: int
    itemsize: int
    heights: Heights
    prefill_rows: int
    multiprocessors: int
    worth_a_launch: int = WORTH_A_LAUNCH
    min_piece: int = MIN_PIECE

    def saved_bytes(self, counts: np.ndarray, num_keys: int) -> int:
        """By meeting so many keys once for all of these sequences, each with so many query rows;
        negative if it does not pay."""
        rows = int(counts.sum())
        apart = int((-(-counts // self.prefill_rows)).sum())
        key = 2 * self.kv_heads * self.head_dim * self.itemsize
        found = self.num_heads * (self.head_dim + 1) * FP32
        return (apart - self.heights.programs(rows)) * num_keys * key - 2 * rows * found

    def piece(self, program_keys: int) -> int:
        """How many keys a program should take at least, of so many that all of them take."""
        enough = PROGRAMS_EACH * self.multiprocessors
        return max(self.min_piece, program_keys * self.kv_heads // enough)


def choose_parts(
    step: HostStep, num_decodes: int, geometry: Geometry
) -> tuple[list[Part], np.ndarray]:
    """Returns the parts, and of each sequence the first key that is in none [num_seqs]."""
    counts = np.diff(step.query_starts)
    spans = _worthwhile_spans(step, counts, geometry)
    key_starts = np.zeros(len(step.seq_lens), dtype=np.int64)
    for span in spans:  # those above come before those below
        key_starts[span.members] = span.end
    groups = [_part(span, step.query_starts, counts) for span in spans]
    parts = _cut_groups(groups, geometry)
    return parts + _cut_decodes(step.seq_lens[:num_decodes], key_starts, geometry), key_starts


def _worthwhile_spans(step: HostStep, counts: np.ndarray, geometry: Geometry) -> list[Span]:
    """Those that save anything; none of them if together they do not pay a launch."""

    def saved(members: np.ndarray, num_keys: int) -> int:
        return geometry.saved_bytes(counts[members], num_keys)

    spans = list(
        shared_spans(
            step.block_tables,
            step.seq_lens - counts,
            block_size=geometry.block_size,
            tile=1,
            worth=lambda members, num_keys: saved(members, num_keys) > 0,
        )
    )
    total = sum(saved(span.members, span.end - span.first) for span in spans)
    return spans if total >= geometry.worth_a_launch else []


def _part(span: Span, query_starts: np.ndarray, counts: np.ndarray) -> Part:
    members = np.sort(span.members)
    theirs = counts[members]
    before = np.cumsum(theirs) - theirs
    rows = np.arange(theirs.sum()) + np.repeat(query_starts[members] - before, theirs)
    return Part(rows, int(members[0]), span.first, span.end)


def _cut_groups(groups: Sequence[Part], geometry: Geometry) -> list[Part]:
    programs = geometry.heights.programs
    work = sum(programs(len(part.rows)) * (part.end - part.first) for part in groups)
    piece = geometry.piece(work)
    return [
        part._replace(first=first, end=end)
        for part in groups
        for first, end in _pieces(part.first, part.end, piece)
    ]


def _cut_decodes(seq_lens: np.ndarray, key_starts: np.ndarray, geometry: Geometry) -> list[Part]:
    """Cut the decodes' own contexts where they are long; the last piece stays in no part."""
    own = seq_lens - key_starts[: len(seq_lens)]
    piece = geometry.piece(int(own.sum()))
    parts = []
    for seq in np.flatnonzero(own >= 2 * piece).tolist():
        *pieces, last = _pieces(int(key_starts[seq]), int(seq_lens[seq]), piece)
        parts += [Part(np.array([seq]), seq, *bounds) for bounds in pieces]
        key_starts[seq] = last[0]
    return parts


def _pieces(first: int, end: int, piece: int) -> list[tuple[int, int]]:
    """Equal stretches of about `piece` keys or more."""
    count = max(1, (end - first) // piece)
    length = -(-(end - first) // count)
    length = -(-length // PIECE_UNIT) * PIECE_UNIT
    return [(start, min(start + length, end)) for start in range(first, end, length)]
