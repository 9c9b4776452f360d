"""The gate of a GeGLU feed-forward."""

import torch

from kernels.checks import require_gate_up
from kernels.dispatch import ops_for


def gelu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Return gelu(gate) * up, with GELU's approximation by tanh.

        gelu(z) = z / 2 * (1 + tanh(sqrt(2 / pi) * (z + 0.044715 * z**3)))

    gate_up: [num_tokens, 2 * intermediate], gate in the left half, up in the right; bf16, fp16 or
             fp32.  It is what one matrix product with both weights stacked gives.
    Returns [num_tokens, intermediate] in gate_up's dtype.

    Arithmetic in fp32, by (1 + tanh(a)) / 2 = 1 / (1 + exp(-2a)), which loses no digits where tanh
    is near -1.  Bound by memory: reads gate_up once, writes half as much.
    Raises ValueError for an odd width, another dtype, or if gate_up is not contiguous.
    Source: Shazeer 2020, arXiv:2002.05202, eq. 6; Hendrycks & Gimpel 2016, arXiv:1606.08415,
    sec. 2.
    """
    require_gate_up(gate_up)
    return ops_for(gate_up).gelu_mul(gate_up)
