"""The shape of a decoder: what of config.json every architecture says in the same words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """window: how many tokens a token sees at most, itself included; None if a layer sees all"""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    max_position_embeddings: int
    tied_head: bool
    window: int | None = None

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim


def parse_shape(config: Mapping[str, Any], *, tied_by_default: bool = False) -> ModelShape:
    """Raises ModelUnusable for a missing key."""
    try:
        return _parse(config, tied_by_default)
    except KeyError as error:
        raise ModelUnusable(f"config.json does not say {error.args[0]}") from error


def refuse_unless(config: Mapping[str, Any], *, activation: str, unset: tuple[str, ...]) -> None:
    """Raises ModelUnusable for a variant that we would compute wrongly.

    activation: the only one of the feed-forward that the architecture runs with here
    unset: keys that must be absent or false
    """
    for key in (*unset, "quantization_config"):
        if config.get(key):
            raise ModelUnusable(f"config.json asks for {key}, which we do not run")
    asked = config.get("hidden_activation") or config.get("hidden_act") or activation
    if asked != activation:
        raise ModelUnusable(f"hidden_act {asked!r} is not one that we run: {activation}")


def _max_positions(config: Mapping[str, Any]) -> int:
    """Configs that stretch their positions by YaRN go on naming the length before it."""
    named: int = config["max_position_embeddings"]
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type")) != "yarn":
        return named
    stretched = rope.get("factor", 1) * rope.get("original_max_position_embeddings", named)
    return max(named, int(stretched))


def _parse(config: Mapping[str, Any], tied_by_default: bool) -> ModelShape:
    num_heads = config["num_attention_heads"]
    return ModelShape(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=num_heads,
        num_kv_heads=config.get("num_key_value_heads") or num_heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // num_heads,
        rms_norm_eps=config["rms_norm_eps"],
        max_position_embeddings=_max_positions(config),
        tied_head=config.get("tie_word_embeddings", tied_by_default),
    )
