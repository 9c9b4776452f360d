"""Rotary position embedding of queries and keys."""

import torch

from kernels.checks import require_contiguous, require_one_dtype, require_packed_heads
from kernels.dispatch import ops_for


def rotary_embedding(
    q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn each head of q and k by its token's position.

    The halves of a head are the two coordinates (the "NeoX" pairing, i with i + head_dim/2):

        left'  = left * cos - right * sin
        right' = right * cos + left * sin

    q, k:      [num_tokens, num_heads, head_dim] and [num_tokens, num_kv_heads, head_dim]; bf16,
               fp16 or fp32.  Tokens may be any distance apart, so both may be views of one qkv.
    positions: [num_tokens] int64, each below max_positions
    cos_sin:   [max_positions, head_dim] fp32: the cosines of the head_dim/2 angles, then the sines
    Returns (q, k) turned, contiguous, in q's dtype.

    Arithmetic in fp32.  Bound by memory: reads and writes q and k once.
    Raises ValueError if shapes or dtypes disagree.
    Source: Su et al. 2021, arXiv:2104.09864, sec. 3.2.2.
    """
    require_packed_heads(q=q, k=k)
    require_one_dtype(q=q, k=k)
    num_tokens, _, head_dim = q.shape
    if k.shape[0] != num_tokens or k.shape[2] != head_dim or head_dim % 2:
        raise ValueError(f"shapes disagree: q {tuple(q.shape)}, k {tuple(k.shape)}")
    if positions.shape != (num_tokens,) or positions.dtype != torch.int64:
        raise ValueError(f"{num_tokens} tokens need as many int64 positions")
    if cos_sin.ndim != 2 or cos_sin.shape[1] != head_dim or cos_sin.dtype != torch.float32:
        raise ValueError(f"cos_sin must be [max_positions, {head_dim}] in fp32")
    require_contiguous(positions=positions, cos_sin=cos_sin)
    return ops_for(q).rotary_embedding(q, k, positions, cos_sin)
