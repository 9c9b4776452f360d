"""Llama: Llama 2 and 3, SmolLM2, and everything else that is built the same way."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from engine.models.linear import Linear
from engine.models.llama_config import LlamaConfig
from engine.step_inputs import StepInputs
from kernels import (
    add_rms_norm,
    paged_attention,
    rms_norm,
    rotary_embedding,
    silu_mul,
    store_kv,
)


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """One decoder layer's weights.  qkv: rows of q, then k, then v; gate_up: of gate, then up."""

    input_norm: torch.Tensor
    qkv: Linear
    output: Linear
    post_attention_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class Llama:
    """embedding: [vocab_size, hidden_size]; cos_sin: [max_positions, head_dim] fp32."""

    def __init__(
        self,
        config: LlamaConfig,
        layers: Sequence[LlamaLayer],
        *,
        embedding: torch.Tensor,
        final_norm: torch.Tensor,
        head: Linear,
        cos_sin: torch.Tensor,
    ) -> None:
        self.config = config
        self._layers = layers
        self._embedding = embedding
        self._head = head
        self._cos_sin = cos_sin
        # A norm is fused with the residual addition before it: layer i ends with the next one's.
        self._norms_after = [layer.input_norm for layer in layers[1:]] + [final_norm]

    @property
    def dtype(self) -> torch.dtype:
        return self._embedding.dtype

    @property
    def device(self) -> torch.device:
        return self._embedding.device

    def forward(self, inputs: StepInputs, kv_cache: torch.Tensor) -> torch.Tensor:
        """Return the normed hidden states [num_tokens, hidden_size] of one step's tokens.

        kv_cache: [num_layers, 2, num_blocks, block_size, num_kv_heads, head_dim]; the step's K and
        V are written to it.
        """
        eps = self.config.rms_norm_eps
        residual = F.embedding(inputs.token_ids, self._embedding)
        normed = rms_norm(residual, self._layers[0].input_norm, eps)
        for layer, norm_after, cache in zip(self._layers, self._norms_after, kv_cache, strict=True):
            attended = self._attend(layer, normed, inputs, cache)
            normed, residual = add_rms_norm(attended, residual, layer.post_attention_norm, eps)
            expanded = silu_mul(layer.gate_up(normed))
            normed, residual = add_rms_norm(layer.down(expanded), residual, norm_after, eps)
        return normed

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[num_rows, vocab_size] of the given rows of `forward`'s result."""
        return self._head(hidden)

    def _attend(
        self, layer: LlamaLayer, normed: torch.Tensor, inputs: StepInputs, cache: torch.Tensor
    ) -> torch.Tensor:
        config = self.config
        qkv = layer.qkv(normed).view(len(normed), -1, config.head_dim)
        q, k, v = torch.split(
            qkv, [config.num_heads, config.num_kv_heads, config.num_kv_heads], dim=1
        )
        q, k = rotary_embedding(q, k, inputs.positions, self._cos_sin)
        k_cache, v_cache = cache[0], cache[1]
        store_kv(k, v, k_cache, v_cache, inputs.slot_mapping)
        attended = paged_attention(
            q, k_cache, v_cache, inputs.attention, scale=config.head_dim**-0.5
        )
        return layer.output(attended.flatten(1))
