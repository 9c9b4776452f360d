"""One call of paged attention, as its kernels are launched with it."""

import math
from dataclasses import dataclass
from typing import Any, Self

import torch

from kernels.attention_metadata import AttentionMetadata
from kernels.gpu.attention_parts import Parts
from kernels.gpu.tiles import Tiles, tiles_for

# More tokens than any sequence has, and 32 bits hold it.
ALL = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """out, q: [num_tokens, num_heads, head_dim]; the caches: [.., block_size, kv_heads, head_dim]

    scale_log2: multiplies q.k, and holds the factor log2(e)
    window:     in tokens; where there are parts it hides nothing
    parts:      what is computed first, or None
    """

    out: torch.Tensor
    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    metadata: AttentionMetadata
    scale_log2: float
    window: int
    tiles: Tiles
    parts: Parts | None = None

    @classmethod
    def of(
        cls,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        metadata: AttentionMetadata,
        *,
        scale: float,
        window: int | None,
    ) -> Self:
        return cls(
            out=torch.empty(q.shape, dtype=q.dtype, device=q.device),
            q=q,
            k_cache=k_cache,
            v_cache=v_cache,
            metadata=metadata,
            scale_log2=scale * math.log2(math.e),
            window=ALL if window is None else window,
            tiles=tiles_for(q.shape[1] // k_cache.shape[2], q.shape[2], q.element_size()),
        )

    @property
    def group(self) -> int:
        """Query heads to a KV head."""
        return self.q.shape[1] // self.kv_heads

    @property
    def kv_heads(self) -> int:
        return self.k_cache.shape[2]

    def constants(self) -> dict[str, int]:
        """Of every attention kernel."""
        return {
            "BLOCK_SIZE": self.k_cache.shape[1],
            "NUM_KV_HEADS": self.kv_heads,
            "GROUP": self.group,
            "HEAD_DIM": self.k_cache.shape[3],
            "DIM_TILE": self.tiles.dims,
        }

    def parts_arguments(self) -> tuple[Any, ...]:
        """What `fold_parts` reads: where there are no parts, tensors that stand for none."""
        if self.parts is None:
            return (self.out, self.out, self.metadata.seq_lens, self.metadata.seq_lens)
        parts = self.parts
        return parts.out, parts.lse, parts.row_starts, parts.key_starts
