"""Paged attention by the C kernel: pages are read where they lie, and shared ones once."""

import ctypes
from dataclasses import dataclass

import numpy as np
import torch

from kernels import cpu
from kernels.attention_metadata import AttentionMetadata
from kernels.native.library import MAX_VECTORS, call
from kernels.native.segments import cut_into_segments
from kernels.runs import chunks_of

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
MAX_DIM = 256
EVERYTHING = 2**30  # a window that hides nothing


class Shape(ctypes.Structure):
    """`struct shape` of attention.c."""

    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in (
                *("heads", "kv_heads", "dim", "block_size", "table_width"),
                *("q_stride", "kv_type", "window", "threads"),
            )
        ),
        ("scale", ctypes.c_float),
    )


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What the kernel reads of a step, int32; hidden: the rows of padding sequences, if any."""

    tables: torch.Tensor
    positions: torch.Tensor
    rows: torch.Tensor
    segments: torch.Tensor
    levels: torch.Tensor
    hidden: torch.Tensor | None


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    if not _can(q, k_cache):
        return cpu.paged_attention(q, k_cache, v_cache, metadata, scale=scale, window=window)
    if window is not None and window >= metadata.max_seq_len:
        window = None  # nothing is out of sight, so prefixes may be shared
    plan = metadata.once(
        (plan_step, q.shape[1], k_cache.shape[1:3], window),
        lambda: plan_step(metadata, q.shape[1], k_cache, window=window),
    )
    out = _attend(q.float(), k_cache, v_cache, plan, scale=scale, window=window)
    if plan.hidden is not None:
        out[plan.hidden] = 0
    return out.to(q.dtype)


def _can(q: torch.Tensor, k_cache: torch.Tensor) -> bool:
    sharing, dim = q.shape[1] // k_cache.shape[2], q.shape[2]
    return dim % 8 == 0 and dim <= MAX_DIM and sharing <= MAX_VECTORS


def _attend(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    plan: StepPlan,
    *,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    num_tokens, num_heads, dim = q.shape
    out = torch.empty(num_tokens, num_heads, dim)
    state = torch.empty(num_tokens, num_heads, 2)
    shape = Shape(
        heads=num_heads,
        kv_heads=k_cache.shape[2],
        dim=dim,
        block_size=k_cache.shape[1],
        table_width=plan.tables.shape[1],
        q_stride=q.stride(0),
        kv_type=DTYPES[k_cache.dtype],
        window=window or EVERYTHING,
        threads=torch.get_num_threads(),
        scale=scale,
    )
    call(
        "gm_attend",
        shape,
        *(q, k_cache, v_cache, out, state),
        *(plan.tables, plan.positions, plan.rows, plan.segments, plan.levels),
        len(plan.levels) - 1,
    )
    return out


def plan_step(
    metadata: AttentionMetadata, num_heads: int, cache: torch.Tensor, *, window: int | None
) -> StepPlan:
    tables, seq_lens = metadata.block_tables.numpy(), metadata.seq_lens.numpy()
    starts = metadata.query_starts.numpy()
    counts = np.diff(starts)
    segments = cut_into_segments(
        chunks_of(seq_lens, starts),
        tables,
        block_size=cache.shape[1],
        num_heads=num_heads,
        kv_heads=cache.shape[2],
        window=window,
    )
    listed, levels = segments.longest_first()
    positions = np.arange(starts[-1]) + np.repeat(seq_lens - starts[1:], counts)
    hidden = np.repeat(seq_lens == 0, counts)
    return StepPlan(
        tables=metadata.block_tables.contiguous(),
        positions=torch.from_numpy(positions.astype(np.int32)),
        rows=torch.tensor(segments.rows, dtype=torch.int32),
        segments=torch.from_numpy(listed),
        levels=torch.from_numpy(levels),
        hidden=torch.from_numpy(hidden) if hidden.any() else None,
    )
