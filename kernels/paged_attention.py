"""Attention of a step's chunks over everything that their sequences have cached."""

import torch

from kernels.attention_metadata import AttentionMetadata
from kernels.checks import require_caches, require_packed_heads
from kernels.dispatch import ops_for


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale: float,
    window: int | None = None,
) -> torch.Tensor:
    """Attend each query row to its sequence's tokens up to and including its own.

    With a window, to the last so many of those alone.

    q:                [num_tokens, num_heads, head_dim], bf16, fp16 or fp32: the decodes' rows, then
                      the chunks', as metadata.query_starts says
    k_cache, v_cache: [num_blocks, block_size, num_kv_heads, head_dim], of `view_kv_cache`,
                      q's dtype; on a CPU fp16 or bf16 will do for a q in fp32; this step's K and V
                      are stored already
    metadata:         block tables, lengths and rows of the step's sequences
    scale:            multiplies q.k; normally head_dim ** -0.5
    window:           in tokens, a row's own included; None for all of them
    Returns [num_tokens, num_heads, head_dim] in q's dtype; rows of padding sequences are zero.

    num_heads must be a multiple of num_kv_heads (grouped-query attention: num_heads/num_kv_heads
    neighbouring heads share a KV head).  Softmax and accumulation in fp32.
    Decode is bound by memory: 2 * sum(seq_lens) * num_kv_heads * head_dim * itemsize bytes.
    Raises ValueError if shapes or dtypes disagree, or for a window of no token.
    Source: Kwon et al. 2023, arXiv:2309.06180, sec. 4.1; online softmax from Milakov & Gimelshein
    2018, arXiv:1805.02867, alg. 3; packing a group's heads into one tile from Ainslie et al. 2023,
    arXiv:2305.13245; windows from Beltagy et al. 2020, arXiv:2004.05150, sec. 3.1.
    """
    require_packed_heads(q=q)
    require_caches(q, k_cache, v_cache)
    if k_cache.ndim != 4 or k_cache.shape[3] != q.shape[2] or v_cache.shape != k_cache.shape:
        raise ValueError(f"the cache is {tuple(k_cache.shape)}, q is {tuple(q.shape)}")
    if q.shape[1] % k_cache.shape[2]:
        raise ValueError(f"{q.shape[1]} heads cannot share {k_cache.shape[2]} KV heads evenly")
    if metadata.num_decodes > q.shape[0]:
        raise ValueError(f"{metadata.num_decodes} decodes, but only {q.shape[0]} query rows")
    if window is not None and window < 1:
        raise ValueError(f"a window of {window} tokens hides a row from itself")
    return ops_for(q).paged_attention(q, k_cache, v_cache, metadata, scale=scale, window=window)
