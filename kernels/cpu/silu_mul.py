"""The SwiGLU gate in two passes."""

import torch
from torch.nn import functional as F


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate.float()).mul_(up).to(gate_up.dtype)
