"""One program per row and stretch of columns."""

import math

import torch
import triton
import triton.language as tl

BLOCK = 1024
# sigmoid(2a) is (1 + tanh(a)) / 2.
LINEAR = tl.constexpr(2 * math.sqrt(2 / math.pi))
CUBIC = tl.constexpr(2 * math.sqrt(2 / math.pi) * 0.044715)


@triton.jit
def gelu_mul_kernel(out_ptr, gate_up_ptr, intermediate, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = cols < intermediate
    gate_ptr = gate_up_ptr + row * 2 * intermediate + cols

    gate = tl.load(gate_ptr, mask=live, other=0.0).to(tl.float32)
    up = tl.load(gate_ptr + intermediate, mask=live, other=0.0).to(tl.float32)

    share = tl.sigmoid(gate * (LINEAR + CUBIC * gate * gate))
    tl.store(out_ptr + row * intermediate + cols, gate * share * up, mask=live)


def gelu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    num_tokens, width = gate_up.shape
    out = torch.empty(num_tokens, width // 2, dtype=gate_up.dtype, device=gate_up.device)
    grid = (num_tokens, triton.cdiv(width // 2, BLOCK))
    gelu_mul_kernel[grid](out, gate_up, width // 2, BLOCK=BLOCK)
    return out
