"""The memory that holds every block's K and V."""

import math
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

import torch

from engine.config import EngineConfig, kv_dtype
from engine.models.decoder import Decoder


def allocate_kv_cache(model: Decoder, config: EngineConfig) -> torch.Tensor:
    """Zeros [num_layers, 2, num_blocks, block_size, num_kv_heads, head_dim]."""
    heads = (model.shape.num_kv_heads, model.shape.head_dim)
    shape = (model.shape.num_layers, 2, config.num_blocks, config.block_size, *heads)
    dtype = kv_dtype(config.dtype)
    if model.device.type == "cuda":
        return torch.zeros(shape, dtype=dtype, device=model.device)
    # Pages that the operating system hands out when they are first written to: what is never used
    # costs neither memory nor the time to clear it.  Not numpy's zeros, which ask for pages of
    # 2 MiB: to clear those in the midst of a step cost a tenth of a run.
    memory = mmap(-1, math.prod(shape) * dtype.itemsize, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    return torch.frombuffer(memory, dtype=dtype).view(shape)
