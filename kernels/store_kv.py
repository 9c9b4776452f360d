"""Writes new keys and values into the paged cache."""

import torch

from kernels.checks import (
    require_caches,
    require_contiguous,
    require_one_dtype,
    require_packed_heads,
)
from kernels.dispatch import ops_for


def store_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Write each token's K and V to its slot of the cache, in place.

    k, v:             [num_tokens, num_kv_heads, head_dim], bf16, fp16 or fp32; tokens may be any
                      distance apart, so v may be a view of qkv
    k_cache, v_cache: [num_blocks, block_size, num_kv_heads, head_dim], of `view_kv_cache`,
                      k's dtype; on a CPU fp16 or bf16 will do for a k in fp32
    slot_mapping:     [num_tokens] int64: block * block_size + offset.  -1 skips a padding token.
                      Slots must lie in the cache and differ from each other: the latter is not
                      checked, nor is anything on a GPU.

    Where K or V of a token (or of one of its heads) is not finite, or beyond what the cache's type
    holds, K becomes NaN and V zero: a query that sees the token gets NaN, and no other does, though
    what is hidden from it is multiplied by a weight of 0.

    Comes before attention in every layer, so prefill and decode read one layout.
    Raises ValueError if shapes or dtypes disagree, and IndexError for a slot beyond the cache,
    where nothing is written.
    Source: Kwon et al. 2023, arXiv:2309.06180, sec. 4.2 (blocks), `slot_mapping` as in vLLM.
    """
    require_packed_heads(k=k, v=v)
    require_one_dtype(k=k, v=v)
    require_caches(k, k_cache, v_cache)
    if k.shape != v.shape:
        raise ValueError(f"shapes disagree: k {tuple(k.shape)}, v {tuple(v.shape)}")
    if k_cache.ndim != 4 or k_cache.shape[2:] != k.shape[1:] or v_cache.shape != k_cache.shape:
        raise ValueError(f"the cache is {tuple(k_cache.shape)}, k is {tuple(k.shape)}")
    if slot_mapping.shape != k.shape[:1] or slot_mapping.dtype != torch.int64:
        raise ValueError(f"{k.shape[0]} tokens need as many int64 slots")
    require_contiguous(slot_mapping=slot_mapping)
    ops_for(k).store_kv(k, v, k_cache, v_cache, slot_mapping)
