"""Gemma 3, the text model: most layers see a window, with rope angles of their own.

It also normalises heads, and what each half of a layer gives; its norms are stored as distances
from one; its embeddings are scaled; its feed-forward is a GeGLU.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional as F

from engine.errors import ModelUnusable
from engine.models.attention import Attention, NormedHeads, Rotary
from engine.models.decoder import Decoder, DecoderLayer, normed_after
from engine.models.parts import (
    read_attention,
    read_embedding,
    read_feed_forward,
    read_head,
    read_rotary,
)
from engine.models.rope import RopeConfig, parse_rope_fields
from engine.models.shape import ModelShape, parse_shape, refuse_unless
from engine.models.weight_reader import WeightReader
from engine.models.windows import FULL, SLIDING, layer_kinds
from engine.weights.checkpoint import Checkpoint
from kernels import gelu_mul

UNSET = (
    "attention_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "use_bidirectional_attention",
)


@dataclass(frozen=True, slots=True)
class LayerKind:
    """What the layers of one kind share."""

    rotary: Rotary
    window: int | None


def load_gemma3(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> Decoder:
    """Raises ModelUnusable if the config or a weight is not what we run."""
    config = checkpoint.config
    refuse_unless(config, activation="gelu_pytorch_tanh", unset=UNSET)
    shape = parse_shape(config, tied_by_default=True)
    reader = WeightReader(checkpoint, device=device, dtype=dtype)
    kinds = _kinds(config, reader, shape)
    scale = config.get("query_pre_attn_scalar", 256) ** -0.5
    layers = []
    for index, name in enumerate(_layer_names(config, shape.num_layers)):
        prefix = f"model.layers.{index}"
        attention = _attention(reader, shape, prefix, kinds[name])
        layers.append(_layer(reader, shape, prefix, replace(attention, scale=scale)))
    embedding = read_embedding(reader, shape)
    return Decoder(
        shape,
        layers,
        embed=ScaledEmbedding(embedding, math.sqrt(shape.hidden_size)),
        final_norm=reader.read_plus_one("model.norm.weight", shape.hidden_size),
        head=read_head(reader, shape, embedding),
    )


@dataclass(frozen=True, slots=True)
class ScaledEmbedding:
    weight: torch.Tensor
    factor: float

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        # The factor is rounded to the weights' type first, as the model was trained.
        factor = torch.tensor(self.factor, dtype=self.weight.dtype).item()
        return F.embedding(token_ids, self.weight) * factor


def _kinds(
    config: Mapping[str, Any], reader: WeightReader, shape: ModelShape
) -> dict[str, LayerKind]:
    window = config.get("sliding_window", 4096)
    if window is None:
        raise ModelUnusable("config.json does not say sliding_window")
    rotaries = {kind: read_rotary(reader, shape, rope) for kind, rope in _ropes(config).items()}
    return {SLIDING: LayerKind(rotaries[SLIDING], window), FULL: LayerKind(rotaries[FULL], None)}


def _ropes(config: Mapping[str, Any]) -> dict[str, RopeConfig]:
    """By kind of layer; older configs scale only the layers that see everything."""
    older = {FULL: config.get("rope_scaling") or {}}
    fields = config.get("rope_parameters") or older
    thetas = {
        SLIDING: config.get("rope_local_base_freq", 10_000.0),
        FULL: config.get("rope_theta", 1_000_000.0),
    }
    return {
        kind: parse_rope_fields(fields.get(kind) or {}, theta=theta)
        for kind, theta in thetas.items()
    }


def _layer_names(config: Mapping[str, Any], num_layers: int) -> list[str]:
    """Every so many layers one sees everything."""
    every = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or 6
    default = [SLIDING if (index + 1) % every else FULL for index in range(num_layers)]
    return list(layer_kinds(config, default))


def _attention(reader: WeightReader, shape: ModelShape, prefix: str, kind: LayerKind) -> Attention:
    place = NormedHeads(
        kind.rotary,
        q_weight=reader.read_plus_one(f"{prefix}.self_attn.q_norm.weight", shape.head_dim),
        k_weight=reader.read_plus_one(f"{prefix}.self_attn.k_norm.weight", shape.head_dim),
        eps=shape.rms_norm_eps,
    )
    return read_attention(reader, shape, prefix, place=place, window=kind.window)


def _layer(
    reader: WeightReader, shape: ModelShape, prefix: str, attention: Attention
) -> DecoderLayer:
    def norm(name: str) -> torch.Tensor:
        return reader.read_plus_one(f"{prefix}.{name}_layernorm.weight", shape.hidden_size)

    feed_forward = read_feed_forward(reader, shape, prefix, gated=gelu_mul)
    eps = shape.rms_norm_eps
    return DecoderLayer(
        input_norm=norm("input"),
        attend=normed_after(attention, norm("post_attention"), eps),
        feed_forward_norm=norm("pre_feedforward"),
        feed_forward=normed_after(feed_forward, norm("post_feedforward"), eps),
    )
