"""RMS normalisation by PyTorch's own fused operator, in fp32."""

import torch
from torch.nn import functional as F


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x.float(), weight.shape, weight.float(), eps).to(x.dtype)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x.float() + residual.float()
    normed = F.rms_norm(total, weight.shape, weight.float(), eps)
    return normed.to(x.dtype), total.to(x.dtype)
