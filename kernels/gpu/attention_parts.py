"""A step's parts, laid out as the kernels read them.  Which there are, `sharing` decides.

A part is some query rows and some keys that all of them see.  A row may be in any number of parts;
with the keys of its sequence from `key_starts` on they are all that it sees, each once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

ITEM_SIZE = 5
# Triton compiles a kernel anew for a pointer that is no multiple of 16 bytes.
ALIGNED = 4  # int32


class Part(NamedTuple):
    """rows: of q, int; the keys are `first` to `end` of this row of the block tables"""

    rows: np.ndarray
    table: int
    first: int
    end: int


class Heights(NamedTuple):
    """How many query rows one program takes: of a part that fits a low tile, and of any other."""

    narrow: int
    wide: int

    def programs(self, num_rows: int) -> int:
        return 1 if num_rows <= self.narrow else -(-num_rows // self.wide)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Int32, on the device.

    narrow, wide: [n, ITEM_SIZE], what a program does: row of the block tables, first and end key,
                  first and end in `rows`
    rows, slots:  [num_slots], a query row of a part, and where what is found for it is kept
    row_starts:   [num_tokens + 1], the first slot of each query row
    key_starts:   [num_seqs], the first key of each sequence that is in no part
    out, lse:     [num_slots, num_heads, head_dim] and [num_slots, num_heads], fp32: what is found
    """

    narrow: torch.Tensor
    wide: torch.Tensor
    rows: torch.Tensor
    slots: torch.Tensor
    row_starts: torch.Tensor
    key_starts: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor


def lay_out(
    parts: Sequence[Part], key_starts: np.ndarray, q: torch.Tensor, *, heights: Heights
) -> Parts:
    """parts: at least one"""
    rows = np.concatenate([part.rows for part in parts])
    slots = np.empty_like(rows)
    slots[np.argsort(rows, kind="stable")] = np.arange(len(rows))
    row_starts = np.cumsum([0, *np.bincount(rows, minlength=len(q))])
    arrays = [*_items(parts, heights), rows, slots, row_starts, key_starts]
    narrow, wide, *rest = _on_device(arrays, q.device)
    names = ("rows", "slots", "row_starts", "key_starts")
    out = torch.empty((len(rows), *q.shape[1:]), dtype=torch.float32, device=q.device)
    return Parts(
        narrow=narrow.view(-1, ITEM_SIZE),
        wide=wide.view(-1, ITEM_SIZE),
        out=out,
        lse=torch.empty(out.shape[:2], dtype=torch.float32, device=q.device),
        **dict(zip(names, rest, strict=True)),
    )


def _items(parts: Sequence[Part], heights: Heights) -> tuple[np.ndarray, np.ndarray]:
    """Those of the low tile and those of the high one, the most keys first."""
    narrow: list[tuple[int, ...]] = []
    wide: list[tuple[int, ...]] = []
    at = 0
    for rows, table, first, end in parts:
        fits = len(rows) <= heights.narrow
        height, items = (heights.narrow, narrow) if fits else (heights.wide, wide)
        stop = at + len(rows)
        items += [
            (table, first, end, low, min(low + height, stop)) for low in range(at, stop, height)
        ]
        at = stop
    return _longest_first(narrow), _longest_first(wide)


def _longest_first(items: list[tuple[int, ...]]) -> np.ndarray:
    return np.array(sorted(items, key=lambda item: item[1] - item[2]))


def _on_device(arrays: Sequence[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """All in one copy, flat."""
    sizes = [array.size for array in arrays]
    starts = np.cumsum([0, *(-(-size // ALIGNED) * ALIGNED for size in sizes)])
    packed = torch.zeros(int(starts[-1]), dtype=torch.int32, pin_memory=device.type == "cuda")
    for start, array in zip(starts.tolist(), arrays, strict=False):
        packed.numpy()[start : start + array.size] = array.reshape(-1)
    there = packed.to(device, non_blocking=True)
    return [
        there[start : start + size] for start, size in zip(starts.tolist(), sizes, strict=False)
    ]
