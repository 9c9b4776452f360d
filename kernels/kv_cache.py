"""How a layer's K and V lie in memory."""

import torch

from kernels import native
from kernels.dispatch import ops_for


def view_kv_cache(
    memory: torch.Tensor, *, block_size: int, num_heads: int, num_kv_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """See memory as a layer's K and V, in the order in which attention here reads them fastest.

    memory: [2, num_blocks, block_size * num_kv_heads * head_dim], contiguous.  The numbers of a
            block lie together, in whichever order.
    num_heads: of the queries that will meet them
    Returns K and V, each [num_blocks, block_size, num_kv_heads, head_dim], not always contiguous.
    """
    shape = (
        memory.shape[1],
        block_size,
        num_kv_heads,
        memory.shape[2] // block_size // num_kv_heads,
    )
    k, v = memory
    fits = native.can_cache(shape, memory.dtype) and native.can_attend(num_heads, *shape[2:])
    if fits and ops_for(memory) is native:
        return native.view_k(k, shape), native.view_v(v, shape)
    return k.view(shape), v.view(shape)
