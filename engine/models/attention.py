"""The attention of one layer, of pieces that an architecture chooses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch

from engine.kv_cache import LayerCache
from engine.models.linear import Linear
from engine.step_inputs import StepInputs
from kernels import paged_attention, rms_norm, rotary_embedding, store_kv

# (q, k, positions) to (q, k): gives each head of q and k its place.
Placing: TypeAlias = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """qkv: rows of q, then k, then v
    scale: multiplies q.k
    window: how many tokens a token sees, itself included; None for all before it
    """

    qkv: Linear
    output: Linear
    num_heads: int
    num_kv_heads: int
    place: Placing
    scale: float
    window: int | None = None

    def __call__(self, normed: torch.Tensor, inputs: StepInputs, cache: LayerCache) -> torch.Tensor:
        num_in_qkv = self.num_heads + 2 * self.num_kv_heads
        qkv = self.qkv(normed).view(len(normed), num_in_qkv, -1)
        q, k, v = torch.split(qkv, [self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
        q, k = self.place(q, k, inputs.positions)
        k_cache, v_cache = cache
        store_kv(k, v, k_cache, v_cache, inputs.slot_mapping)
        attended = paged_attention(
            q, k_cache, v_cache, inputs.attention, scale=self.scale, window=self.window
        )
        return self.output(attended.flatten(1))


@dataclass(frozen=True, slots=True)
class Rotary:
    """cos_sin: [max_positions, head_dim] fp32."""

    cos_sin: torch.Tensor

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return rotary_embedding(q, k, positions, self.cos_sin)


@dataclass(frozen=True, slots=True)
class NormedHeads:
    """Normalises every head before it is given its place.  q_weight, k_weight: [head_dim]."""

    place: Placing
    q_weight: torch.Tensor
    k_weight: torch.Tensor
    eps: float

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.place(
            rms_norm(q, self.q_weight, self.eps),
            rms_norm(k, self.k_weight, self.eps),
            positions,
        )
