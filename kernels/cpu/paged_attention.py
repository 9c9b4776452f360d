"""Paged attention in batched products: no Python per decoding sequence, one call per chunk.

What depends only on the step, gather indices and masks and scratch, is planned by its first layer.
"""

from dataclasses import dataclass

import torch

from kernels.attention_metadata import AttentionMetadata
from kernels.cpu.chunk_attention import Chunk, attend_chunk, plan_chunks
from kernels.cpu.decode_attention import attend_decodes
from kernels.cpu.decode_plan import DecodePlan, plan_decodes
from kernels.cpu.pages import Pages


@dataclass(frozen=True, slots=True)
class StepPlan:
    """scratch: [2, size], in the cache's dtype: the largest gather's K and V."""

    decodes: DecodePlan
    chunks: list[Chunk]
    scratch: torch.Tensor


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    if window is not None and window >= metadata.max_seq_len:
        window = None  # nothing is out of sight, so prefixes may be shared
    plan = metadata.once(
        (plan_step, k_cache.shape[1:], k_cache.dtype, window),
        lambda: plan_step(metadata, k_cache, window=window),
    )
    pages = Pages(k_cache, v_cache, plan.scratch)
    out = torch.empty(q.shape, dtype=q.dtype)
    decodes = q[: metadata.num_decodes].float()
    out[: len(decodes)] = attend_decodes(decodes, pages, plan.decodes, scale=scale)
    for chunk in plan.chunks:
        out[chunk.rows] = attend_chunk(q[chunk.rows], pages, chunk, scale=scale)
    return out


def plan_step(metadata: AttentionMetadata, cache: torch.Tensor, *, window: int | None) -> StepPlan:
    _, block_size, kv_heads, head_dim = cache.shape
    decodes = plan_decodes(metadata, block_size=block_size, kv_heads=kv_heads, window=window)
    chunks = plan_chunks(metadata, block_size=block_size, window=window)
    num_tokens = max(decodes.num_gathered(kv_heads), *(len(chunk.slots) for chunk in chunks), 0)
    scratch = torch.empty(2, num_tokens * kv_heads * head_dim, dtype=cache.dtype)
    return StepPlan(decodes, chunks, scratch)
