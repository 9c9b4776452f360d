"""Caches as the kernels that read them want them."""

import torch

from kernels import view_kv_cache


def cached(k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """k, v: [num_blocks, block_size, kv_heads, head_dim].  The same, in the kernels' order."""
    num_blocks, block_size, num_kv_heads, _ = k.shape
    memory = torch.empty(2, num_blocks, k[0].numel(), dtype=k.dtype, device=k.device)
    caches = view_kv_cache(
        memory, block_size=block_size, num_heads=num_kv_heads, num_kv_heads=num_kv_heads
    )
    return caches[0].copy_(k), caches[1].copy_(v)
