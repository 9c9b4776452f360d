"""The gate of a SwiGLU feed-forward."""

import torch

from kernels.checks import require_gate_up
from kernels.dispatch import ops_for


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up, where silu(z) = z / (1 + exp(-z)).

    gate_up: [num_tokens, 2 * intermediate], gate in the left half, up in the right; bf16, fp16 or
             fp32.  It is what one matrix product with both weights stacked gives.
    Returns [num_tokens, intermediate] in gate_up's dtype.

    Arithmetic in fp32.  Bound by memory: reads gate_up once, writes half as much.
    Raises ValueError for an odd width, another dtype, or if gate_up is not contiguous.
    Source: Shazeer 2020, arXiv:2002.05202, eq. 6.
    """
    require_gate_up(gate_up)
    return ops_for(gate_up).silu_mul(gate_up)
