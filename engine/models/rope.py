"""The angles of rotary position embedding, plain and as Llama 3 stretches them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import ModelUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """theta: the base; the rest is used by the kinds of scaling that need it."""

    kind: str
    theta: float
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192


def parse_rope(config: Mapping[str, Any]) -> RopeConfig:
    """Read either spelling: `rope_parameters`, or the older `rope_theta` and `rope_scaling`.

    Raises ModelUnusable for a scaling that we do not know.
    """
    fields = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return parse_rope_fields(fields, theta=config.get("rope_theta", 10000.0))


def parse_rope_fields(fields: Mapping[str, Any], *, theta: float) -> RopeConfig:
    """theta: the base, unless the fields name theirs."""
    kind = fields.get("rope_type", fields.get("type", "default"))
    if kind not in ("default", "linear", "llama3"):
        raise ModelUnusable(
            f"rope scaling {kind!r} is not one that we run: default, linear, llama3"
        )
    theta = fields.get("rope_theta", theta)
    if kind == "default":
        return RopeConfig(kind=kind, theta=theta)
    if kind == "linear":
        return RopeConfig(kind=kind, theta=theta, factor=fields["factor"])
    return RopeConfig(
        kind=kind,
        theta=theta,
        factor=fields["factor"],
        low_freq_factor=fields["low_freq_factor"],
        high_freq_factor=fields["high_freq_factor"],
        original_max_position_embeddings=fields["original_max_position_embeddings"],
    )


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> torch.Tensor:
    """[head_dim / 2] fp32: how far each pair of coordinates turns from one position to the next."""
    plain = 1.0 / rope.theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    if rope.kind == "linear":
        return plain / rope.factor
    if rope.kind == "llama3":
        return _stretch_slow_ones(plain, rope)
    return plain


def cos_sin_table(frequencies: torch.Tensor, max_positions: int) -> torch.Tensor:
    """[max_positions, head_dim] fp32: the cosines of a position's angles, then the sines."""
    angles = torch.arange(max_positions).float()[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def _stretch_slow_ones(plain: torch.Tensor, rope: RopeConfig) -> torch.Tensor:
    """Slow the long waves down by `factor`, leave the short ones, and blend in between.

    Source: the Llama 3.1 reference code, `apply_scaling`.
    """
    turns = rope.original_max_position_embeddings * plain / (2 * math.pi)
    blend = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    blend = blend.clamp(0, 1)
    return (1 - blend) * plain / rope.factor + blend * plain
