"""Refusals that several ops share.  Each raises ValueError and names the argument."""

import torch

from kernels.settings import INTERPRETED

SUPPORTED_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def require_one_dtype(**tensors: torch.Tensor) -> None:
    first, *others = tensors.values()
    if first.dtype not in SUPPORTED_DTYPES:
        raise ValueError(f"{next(iter(tensors))} is {first.dtype}; use bf16, fp16 or fp32")
    if any(other.dtype != first.dtype for other in others):
        dtypes = ", ".join(f"{name} is {tensor.dtype}" for name, tensor in tensors.items())
        raise ValueError(f"dtypes disagree: {dtypes}")


def require_caches(x: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> None:
    """What is cached has x's type; on a CPU it may be narrower than an x in fp32."""
    if x.dtype == torch.float32 and not x.is_cuda:
        require_one_dtype(k_cache=k_cache, v_cache=v_cache)
    else:
        require_one_dtype(x=x, k_cache=k_cache, v_cache=v_cache)
    if x.is_cuda or INTERPRETED:  # Triton reads them as they are indexed
        require_contiguous(k_cache=k_cache, v_cache=v_cache)


def require_contiguous(**tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous")


def require_packed_heads(**tensors: torch.Tensor) -> None:
    """Each is [tokens, heads, head_dim]; tokens may be any distance apart, as in a fused qkv."""
    for name, tensor in tensors.items():
        if tensor.ndim != 3:
            raise ValueError(f"{name} must be [tokens, heads, head_dim], not {tensor.ndim}-D")
        if tensor.numel() and not tensor[0].is_contiguous():
            raise ValueError(f"the heads of one token of {name} must be contiguous")


def require_gate_up(gate_up: torch.Tensor) -> None:
    """A gate and what it gates, side by side in every row."""
    if gate_up.ndim != 2 or gate_up.shape[1] % 2:
        raise ValueError(f"gate_up must be [tokens, 2 * intermediate], not {tuple(gate_up.shape)}")
    require_one_dtype(gate_up=gate_up)
    require_contiguous(gate_up=gate_up)
