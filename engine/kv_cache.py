"""The memory that holds every block's K and V."""

import math

import numpy as np
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
    # numpy takes its zeros from the operating system, which hands out a page when it is written to:
    # what is never used costs neither memory nor the time to clear it.
    zeros = np.zeros(math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    return torch.from_numpy(zeros).view(dtype).view(shape)
