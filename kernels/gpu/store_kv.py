"""One program per token; the heads of a token are one stretch of memory on both sides."""

import torch
import triton
import triton.language as tl


@triton.jit
def store_kv_kernel(
    k_cache_ptr, v_cache_ptr, k_ptr, v_ptr, slots_ptr,
    k_stride, v_stride,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + token)
    cols = tl.arange(0, BLOCK)
    live = (cols < WIDTH) & (slot >= 0)

    k = tl.load(k_ptr + token * k_stride + cols, mask=live, other=0.0).to(tl.float32)
    v = tl.load(v_ptr + token * v_stride + cols, mask=live, other=0.0).to(tl.float32)
    finite = (tl.abs(k) < float("inf")) & (tl.abs(v) < float("inf"))
    lost = tl.min(finite.to(tl.int32), axis=0) == 0
    k = tl.where(lost, float("nan"), k)
    v = tl.where(lost, 0.0, v)

    tl.store(k_cache_ptr + slot * WIDTH + cols, k, mask=live)
    tl.store(v_cache_ptr + slot * WIDTH + cols, v, mask=live)


def store_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    width = k.shape[1] * k.shape[2]
    store_kv_kernel[(len(k),)](
        k_cache, v_cache, k, v, slot_mapping,
        k.stride(0), v.stride(0),
        WIDTH=width, BLOCK=triton.next_power_of_2(width),
    )  # fmt: skip
