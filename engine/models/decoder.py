"""The decoder that every architecture is an arrangement of: layers around a residual stream.

It must never know which architecture it runs: what differs comes in as pieces.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec

import torch

from engine.kv_cache import KvCache, LayerCache
from engine.models.linear import Linear
from engine.models.shape import ModelShape
from engine.step_inputs import StepInputs
from kernels import add_rms_norm, rms_norm

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderLayer:
    """attend: (normed, inputs, the layer's cache) to what is added to the residual stream."""

    input_norm: torch.Tensor
    attend: Callable[[torch.Tensor, StepInputs, LayerCache], torch.Tensor]
    feed_forward_norm: torch.Tensor
    feed_forward: Callable[[torch.Tensor], torch.Tensor]


class Decoder:
    """embed: token ids [num_tokens] to [num_tokens, hidden_size]."""

    def __init__(
        self,
        shape: ModelShape,
        layers: Sequence[DecoderLayer],
        *,
        embed: Callable[[torch.Tensor], torch.Tensor],
        final_norm: torch.Tensor,
        head: Linear,
    ) -> None:
        self.shape = shape
        self._layers = layers
        self._embed = embed
        self._final_norm = final_norm
        self._head = head
        # A norm is fused with the residual addition before it: layer i ends with the next one's.
        self._norms_after = [layer.input_norm for layer in layers[1:]] + [final_norm]

    @property
    def dtype(self) -> torch.dtype:
        return self._final_norm.dtype

    @property
    def device(self) -> torch.device:
        return self._final_norm.device

    def forward(self, inputs: StepInputs, kv_cache: KvCache) -> torch.Tensor:
        """Return the normed hidden states [num_tokens, hidden_size] of one step's tokens.

        kv_cache: the step's K and V are written to it.
        """
        return self.through_layers(self.embed(inputs.token_ids), inputs, kv_cache)

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """[num_tokens, hidden_size]: what goes into the first layer."""
        return self._embed(token_ids)

    def through_layers(
        self, residual: torch.Tensor, inputs: StepInputs, kv_cache: KvCache
    ) -> torch.Tensor:
        """`forward`, from what `embed` gave on."""
        eps = self.shape.rms_norm_eps
        normed = rms_norm(residual, self._layers[0].input_norm, eps)
        parts = zip(self._layers, self._norms_after, kv_cache.layers, strict=True)
        for layer, norm_after, cache in parts:
            attended = layer.attend(normed, inputs, cache)
            normed, residual = add_rms_norm(attended, residual, layer.feed_forward_norm, eps)
            normed, residual = add_rms_norm(layer.feed_forward(normed), residual, norm_after, eps)
        return normed

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[num_rows, vocab_size] of the given rows of `forward`'s result."""
        return self._head(hidden)


def normed_after(
    block: Callable[P, torch.Tensor], weight: torch.Tensor, eps: float
) -> Callable[P, torch.Tensor]:
    """A block whose result is normalised before it is added to the residual stream."""

    def normed(*args: P.args, **kwargs: P.kwargs) -> torch.Tensor:
        return rms_norm(block(*args, **kwargs), weight, eps)

    return normed
