"""K and V as the C kernels read them: what a query meets side by side lies side by side.

A block of K is [kv_heads, head_dim, block_size], for a query meets many keys one dimension at a
time; one of V is [kv_heads, block_size, head_dim], for values are summed key by key.
"""

from collections.abc import Sequence

import torch

from kernels.native.library import MAX_VECTORS
from kernels.native.structures import FP16, FP32, LANES

DTYPES = {torch.float32: FP32, torch.float16: FP16}
MAX_DIM = 256


def can_cache(shape: Sequence[int], dtype: torch.dtype) -> bool:
    """shape: [num_blocks, block_size, kv_heads, head_dim]"""
    return dtype in DTYPES and _can_be_head(shape[3])


def can_attend(num_heads: int, num_kv_heads: int, head_dim: int) -> bool:
    """Whether the C attends, or leaves it to PyTorch."""
    return _can_be_head(head_dim) and num_heads <= MAX_VECTORS * num_kv_heads


def _can_be_head(dim: int) -> bool:
    return dim % LANES == 0 and dim <= MAX_DIM


def view_k(memory: torch.Tensor, shape: tuple[int, int, int, int]) -> torch.Tensor:
    """The memory of K's blocks as [num_blocks, block_size, kv_heads, head_dim]."""
    num_blocks, block_size, kv_heads, head_dim = shape
    return memory.view(num_blocks, kv_heads, head_dim, block_size).permute(0, 3, 1, 2)


def view_v(memory: torch.Tensor, shape: tuple[int, int, int, int]) -> torch.Tensor:
    num_blocks, block_size, kv_heads, head_dim = shape
    return memory.view(num_blocks, kv_heads, block_size, head_dim).transpose(1, 2)


def is_ours(k_cache: torch.Tensor, v_cache: torch.Tensor) -> bool:
    """Whether they lie so.  shapes: [num_blocks, block_size, kv_heads, head_dim]"""
    return (
        can_cache(k_cache.shape, k_cache.dtype)
        and k_cache.permute(0, 2, 3, 1).is_contiguous()
        and v_cache.transpose(1, 2).is_contiguous()
    )
