"""Reading scattered pages as one contiguous tensor.

PyTorch has no product over scattered rows, so they are gathered first, into scratch that is made
once a step and reused by every layer: to touch fresh memory costs ten times what the gather does.
"""

from dataclasses import dataclass

import torch


def slots(block_tables: torch.Tensor, positions: torch.Tensor, block_size: int) -> torch.Tensor:
    """Where each position [seqs, n] of each sequence lies: block * block_size + offset."""
    blocks = block_tables.long().gather(1, positions // block_size)
    return blocks * block_size + positions % block_size


@dataclass(frozen=True, slots=True)
class Pages:
    """One layer's caches, [num_blocks, block_size, kv_heads, head_dim], and a step's scratch.

    What a method returns lies in the scratch, and is gone when one is called again.
    """

    k_cache: torch.Tensor
    v_cache: torch.Tensor
    scratch: torch.Tensor

    def tokens(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of the tokens in these slots: [n, kv_heads, head_dim]."""
        return self._gather(index, *(cache.flatten(0, 1) for cache in (self.k_cache, self.v_cache)))

    def heads(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of single heads, by slot * kv_heads + head: [n, head_dim]."""
        return self._gather(index, *(cache.flatten(0, 2) for cache in (self.k_cache, self.v_cache)))

    def _gather(
        self, index: torch.Tensor, k_rows: torch.Tensor, v_rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        shape = (len(index), *k_rows.shape[1:])
        size = len(index) * k_rows[0].numel()
        k, v = (part[:size].view(shape) for part in self.scratch)
        return (
            torch.index_select(k_rows, 0, index, out=k),
            torch.index_select(v_rows, 0, index, out=v),
        )
