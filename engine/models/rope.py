"""The angles of rotary position embedding, plain, and as Llama 3 and YaRN stretch them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import ModelUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """theta: the base; the rest is used by the kinds of scaling that need it.

    amplitude: multiplies cosines and sines
    """

    kind: str
    theta: float
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    amplitude: float = 1.0


def parse_rope(config: Mapping[str, Any]) -> RopeConfig:
    """Read either spelling: `rope_parameters`, or the older `rope_theta` and `rope_scaling`.

    Raises ModelUnusable for a scaling that we do not know.
    """
    fields = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return parse_rope_fields(fields, theta=config.get("rope_theta", 10000.0))


def parse_rope_fields(fields: Mapping[str, Any], *, theta: float) -> RopeConfig:
    """theta: the base, unless the fields name theirs.

    Raises ModelUnusable for a scaling that we do not know, or whose numbers are missing.
    """
    kind = fields.get("rope_type", fields.get("type", "default"))
    if kind not in KINDS:
        raise ModelUnusable(f"rope scaling {kind!r} is not one that we run: {', '.join(KINDS)}")
    try:
        return RopeConfig(kind=kind, theta=fields.get("rope_theta", theta), **KINDS[kind](fields))
    except KeyError as error:
        raise ModelUnusable(
            f"config.json's rope scaling {kind!r} does not say {error.args[0]}"
        ) from error


def _linear(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"factor": fields["factor"]}


def _llama3(fields: Mapping[str, Any]) -> dict[str, Any]:
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    return {name: fields[name] for name in names}


def _yarn(fields: Mapping[str, Any]) -> dict[str, Any]:
    if fields.get("truncate") is False:
        raise ModelUnusable("rope scaling 'yarn' with truncate false is not one that we run")
    return {
        "factor": fields["factor"],
        "original_max_position_embeddings": fields["original_max_position_embeddings"],
        "beta_fast": fields.get("beta_fast") or 32.0,
        "beta_slow": fields.get("beta_slow") or 1.0,
        "amplitude": _yarn_amplitude(fields),
    }


def _yarn_amplitude(fields: Mapping[str, Any]) -> float:
    """What makes up for the flatter softmax of a longer context, as the paper fits it."""
    if fields.get("attention_factor") is not None:
        return float(fields["attention_factor"])
    growth = 0.1 * math.log(max(fields["factor"], 1.0))
    of_all = fields.get("mscale_all_dim")
    if fields.get("mscale") and of_all:
        return float((fields["mscale"] * growth + 1) / (of_all * growth + 1))
    return growth + 1


KINDS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "default": lambda fields: {},
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> torch.Tensor:
    """[head_dim / 2] fp32: how far each pair of coordinates turns from one position to the next."""
    plain = 1.0 / rope.theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    if rope.kind == "linear":
        return plain / rope.factor
    if rope.kind == "llama3":
        return _stretch_slow_ones(plain, rope)
    if rope.kind == "yarn":
        return _stretch_by_parts(plain, rope)
    return plain


def cos_sin_table(
    frequencies: torch.Tensor, max_positions: int, *, amplitude: float = 1.0
) -> torch.Tensor:
    """[max_positions, head_dim] fp32: the cosines of a position's angles, then the sines."""
    angles = torch.arange(max_positions).float()[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=-1) * amplitude


def _stretch_by_parts(plain: torch.Tensor, rope: RopeConfig) -> torch.Tensor:
    """Leave the pairs that turn often within the original context, slow down those that hardly
    turn, and blend in between, by the number of the pair.

    Source: Peng et al. 2023, arXiv:2309.00071, section 3.2 ("NTK-by-parts").
    """

    def pair_that_turns(times: float) -> float:
        wavelength = rope.original_max_position_embeddings / times
        return len(plain) * math.log(wavelength / (2 * math.pi)) / math.log(rope.theta)

    first = max(math.floor(pair_that_turns(rope.beta_fast)), 0)
    last = min(math.ceil(pair_that_turns(rope.beta_slow)), 2 * len(plain) - 1)
    pairs = torch.arange(len(plain)).float()
    slowed = ((pairs - first) / max(last - first, 1e-3)).clamp(0, 1)
    return slowed * plain / rope.factor + (1 - slowed) * plain


def _stretch_slow_ones(plain: torch.Tensor, rope: RopeConfig) -> torch.Tensor:
    """Slow the long waves down by `factor`, leave the short ones, and blend in between.

    Source: the Llama 3.1 reference code, `apply_scaling`.
    """
    turns = rope.original_max_position_embeddings * plain / (2 * math.pi)
    blend = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    blend = blend.clamp(0, 1)
    return (1 - blend) * plain / rope.factor + blend * plain
