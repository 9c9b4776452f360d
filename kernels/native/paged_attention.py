"""Paged attention by the C kernel: blocks are read where they lie, and shared ones once."""

import ctypes
from dataclasses import dataclass

import numpy as np
import torch

from kernels import cpu
from kernels.attention_metadata import AttentionMetadata
from kernels.native.kv_cache import DTYPES, can_attend, is_ours
from kernels.native.program import compute, empty, of_step
from kernels.native.segments import Segments
from kernels.native.structures import floats, integers, pointers
from kernels.runs import chunks_of

EVERYTHING = 2**30  # a window that hides nothing


class Attention(ctypes.Structure):
    """`struct attention` of attention.c."""

    _fields_ = (
        *pointers("q", "k", "v", "out", "state", "plan"),
        *integers("heads", "kv_heads", "dim", "block_size", "q_stride", "kv_type"),
        *floats("scale"),
    )


class Plan(ctypes.Structure):
    """`struct plan` of attention.c; `tensors`: what it points to."""

    _fields_ = (
        *pointers("tables", "positions", "rows", "segments", "levels"),
        *integers("num_levels", "table_width", "window"),
    )
    tensors: tuple[torch.Tensor, ...] = ()


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    if not (is_ours(k_cache, v_cache) and can_attend(q.shape[1], *k_cache.shape[2:])):
        return cpu.paged_attention(q, k_cache, v_cache, metadata, scale=scale, window=window)
    num_tokens, num_heads, dim = q.shape
    _, block_size, kv_heads, _ = k_cache.shape
    planner = Planner(num_heads, kv_heads, block_size, window)
    plan = of_step(metadata, planner, Plan)
    queries, out, state = q.float(), empty(q.shape), empty((num_tokens, num_heads, 2))
    places = (each.data_ptr() for each in (queries, k_cache, v_cache, out, state))
    sizes = (num_heads, kv_heads, dim, block_size, queries.stride(0), DTYPES[k_cache.dtype])
    of = Attention(*places, ctypes.addressof(plan), *sizes, scale)
    compute("gm_attend", of, rows=num_tokens)
    return out.to(q.dtype)


@dataclass(frozen=True, slots=True)
class Planner:
    """Cuts a step for the layers of one shape; equal ones give the same plan."""

    num_heads: int
    kv_heads: int
    block_size: int
    window: int | None

    def __call__(self, metadata: AttentionMetadata) -> Plan:
        window = self.window
        if window is not None and window >= metadata.max_seq_len:
            window = None  # nothing is out of sight, so prefixes may be shared
        segments = self._segments(metadata, window)
        listed, levels = segments.longest_first()
        tensors = (
            metadata.block_tables.contiguous(),
            _positions(metadata),
            torch.tensor(segments.rows, dtype=torch.int32),
            torch.from_numpy(listed),
            torch.from_numpy(levels),
        )
        width = metadata.block_tables.shape[1]
        sizes = (len(levels) - 1, width, EVERYTHING if window is None else window)
        plan = Plan(*(each.data_ptr() for each in tensors), *sizes)
        plan.tensors = tensors
        return plan

    def _segments(self, metadata: AttentionMetadata, window: int | None) -> Segments:
        segments = Segments(self.num_heads // self.kv_heads, self.kv_heads, window)
        segments.cut(
            chunks_of(metadata.seq_lens.numpy(), metadata.query_starts.numpy()),
            metadata.block_tables.numpy(),
            block_size=self.block_size,
            threads=torch.get_num_threads(),
        )
        padding = metadata.seq_lens.numpy() == 0
        counts = np.diff(metadata.query_starts.numpy())
        segments.hide(np.flatnonzero(np.repeat(padding, counts)).tolist())
        return segments


def _positions(metadata: AttentionMetadata) -> torch.Tensor:
    """Of each query row in its sequence, [num_tokens] int32."""
    starts, seq_lens = metadata.query_starts.numpy(), metadata.seq_lens.numpy()
    positions = np.arange(starts[-1]) + np.repeat(seq_lens - starts[1:], np.diff(starts))
    return torch.from_numpy(positions.astype(np.int32))
