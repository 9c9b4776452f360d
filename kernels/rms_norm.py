"""RMS normalisation, alone and fused with the residual addition before it."""

import torch

from kernels.checks import require_contiguous, require_one_dtype, require_packed_heads
from kernels.dispatch import ops_for


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Scale every row to a root mean square of one, then by `weight`.

        x / sqrt(mean(x**2) + eps) * weight

    x:      [num_tokens, hidden], or each head of [num_tokens, heads, head_dim], whose tokens may be
            any distance apart, as in a fused qkv; bf16, fp16 or fp32
    weight: as long as a row, x's dtype
    Returns x's shape in x's dtype.

    Accumulates in fp32.  A row's result does not depend on the other rows.
    Bound by memory: reads x once, writes the result once.
    Raises ValueError if shapes or dtypes disagree or an argument is not contiguous.
    Source: Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4.
    """
    if x.ndim == 3:
        require_packed_heads(x=x)
    else:
        require_contiguous(x=x)
    _check(x, weight)
    return ops_for(x).rms_norm(x, weight, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add the residual, then normalise: what stands between two halves of a decoder layer.

        total  = x + residual
        normed = total / sqrt(mean(total**2) + eps) * weight

    x, residual: [num_tokens, hidden], bf16, fp16 or fp32
    weight:      [hidden], x's dtype
    Returns (normed, total), both [num_tokens, hidden] in x's dtype; `total` is the next residual.

    Accumulates in fp32, and normalises the sum before it is rounded.  A row's result does not
    depend on the other rows.
    Bound by memory: reads two such matrices, writes two.
    Raises ValueError if shapes or dtypes disagree or an argument is not contiguous.
    Source: Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4.
    """
    _check(x, weight)
    require_contiguous(x=x)
    if residual.shape != x.shape:
        raise ValueError(f"shapes disagree: x {tuple(x.shape)}, residual {tuple(residual.shape)}")
    require_one_dtype(x=x, residual=residual)
    require_contiguous(residual=residual)
    return ops_for(x).add_rms_norm(x, residual, weight, eps)


def _check(x: torch.Tensor, weight: torch.Tensor) -> None:
    if x.ndim not in (2, 3) or weight.shape != x.shape[-1:]:
        raise ValueError(f"shapes disagree: x {tuple(x.shape)}, weight {tuple(weight.shape)}")
    require_one_dtype(x=x, weight=weight)
    require_contiguous(weight=weight)
