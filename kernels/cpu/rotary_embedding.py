"""Rotary embedding in two passes over each half of a head."""

import torch


def rotary_embedding(
    q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = cos_sin.index_select(0, positions).unsqueeze(1).chunk(2, dim=-1)
    return _rotate(q, cos, sin), _rotate(k, cos, sin)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    # Written straight into the halves of the result: half the passes of cat(left, right).
    left, right = x.float().chunk(2, dim=-1)
    out = torch.empty(x.shape, dtype=torch.float32)
    new_left, new_right = out.chunk(2, dim=-1)
    torch.mul(left, cos, out=new_left).addcmul_(right, sin, value=-1)
    torch.mul(right, cos, out=new_right).addcmul_(left, sin)
    return out.to(x.dtype)
