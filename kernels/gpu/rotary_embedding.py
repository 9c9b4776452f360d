"""One program per token turns all of its heads, so the angles are read once."""

import torch
import triton
import triton.language as tl


@triton.jit
def rotary_embedding_kernel(
    q_out_ptr, k_out_ptr, q_ptr, k_ptr, positions_ptr, cos_sin_ptr,
    q_stride, k_stride,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HALF: tl.constexpr,
    HEADS_TILE: tl.constexpr, KV_HEADS_TILE: tl.constexpr, HALF_TILE: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    position = tl.load(positions_ptr + token)
    cols = tl.arange(0, HALF_TILE)
    angles_ptr = cos_sin_ptr + position * 2 * HALF + cols
    cos = tl.load(angles_ptr, mask=cols < HALF, other=0.0)[None, :]
    sin = tl.load(angles_ptr + HALF, mask=cols < HALF, other=0.0)[None, :]

    _rotate_heads(
        q_out_ptr + token * (NUM_HEADS * 2 * HALF), q_ptr + token * q_stride, cos, sin,
        NUM_HEADS, HALF, HEADS_TILE, HALF_TILE,
    )  # fmt: skip
    _rotate_heads(
        k_out_ptr + token * (NUM_KV_HEADS * 2 * HALF), k_ptr + token * k_stride, cos, sin,
        NUM_KV_HEADS, HALF, KV_HEADS_TILE, HALF_TILE,
    )  # fmt: skip


@triton.jit
def _rotate_heads(
    out_ptr, x_ptr, cos, sin,
    NUM_HEADS: tl.constexpr, HALF: tl.constexpr,
    HEADS_TILE: tl.constexpr, HALF_TILE: tl.constexpr,
):  # fmt: skip
    heads = tl.arange(0, HEADS_TILE)[:, None]
    cols = tl.arange(0, HALF_TILE)[None, :]
    at = heads * (2 * HALF) + cols
    live = (heads < NUM_HEADS) & (cols < HALF)

    left = tl.load(x_ptr + at, mask=live, other=0.0).to(tl.float32)
    right = tl.load(x_ptr + at + HALF, mask=live, other=0.0).to(tl.float32)

    tl.store(out_ptr + at, left * cos - right * sin, mask=live)
    tl.store(out_ptr + at + HALF, right * cos + left * sin, mask=live)


def rotary_embedding(
    q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    num_tokens, num_heads, head_dim = q.shape
    num_kv_heads = k.shape[1]
    q_out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    k_out = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    rotary_embedding_kernel[(num_tokens,)](
        q_out, k_out, q, k, positions, cos_sin,
        q.stride(0), k.stride(0),
        NUM_HEADS=num_heads, NUM_KV_HEADS=num_kv_heads, HALF=head_dim // 2,
        HEADS_TILE=triton.next_power_of_2(num_heads),
        KV_HEADS_TILE=triton.next_power_of_2(num_kv_heads),
        HALF_TILE=triton.next_power_of_2(head_dim // 2),
    )  # fmt: skip
    return q_out, k_out
