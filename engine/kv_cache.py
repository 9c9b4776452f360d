"""The memory that holds every block's K and V."""

import math
from dataclasses import dataclass
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TypeAlias

import torch

from engine.models.shape import ModelShape
from kernels import view_kv_cache

# A layer's K and V, each [num_blocks, block_size, num_kv_heads, head_dim].
LayerCache: TypeAlias = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class KvCache:
    """memory: [num_layers, 2, num_blocks, numbers of a block's K or V]
    layers: views of it
    """

    memory: torch.Tensor
    layers: list[LayerCache]

    def copy_blocks(self, copies: list[tuple[int, int]]) -> None:
        """Copy from block to block, all at once: nothing is read after it was written."""
        if copies:
            source, target = torch.tensor(copies, device=self.memory.device).unbind(1)
            self.memory[:, :, target] = self.memory[:, :, source]


def allocate_kv_cache(
    shape: ModelShape, num_blocks: int, block_size: int, *, dtype: torch.dtype, device: torch.device
) -> KvCache:
    """Zeros, in the order that the kernels for the device and type like best."""
    numbers = block_size * shape.num_kv_heads * shape.head_dim
    memory = _zeros((shape.num_layers, 2, num_blocks, numbers), dtype, device)
    layers = [
        view_kv_cache(
            layer,
            block_size=block_size,
            num_heads=shape.num_heads,
            num_kv_heads=shape.num_kv_heads,
        )
        for layer in memory
    ]
    return KvCache(memory, layers)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if device.type == "cuda":
        return torch.zeros(shape, dtype=dtype, device=device)
    # Pages that the operating system hands out when they are first written to: what is never used
    # costs neither memory nor the time to clear it.  Not numpy's zeros, which ask for pages of
    # 2 MiB: to clear those in the midst of a step cost a tenth of a run.
    memory = mmap(-1, math.prod(shape) * dtype.itemsize, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    return torch.frombuffer(memory, dtype=dtype).view(shape)
