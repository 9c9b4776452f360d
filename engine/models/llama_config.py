"""The shape of a Llama: what of config.json its forward pass depends on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelUnusable
from engine.models.rope import RopeConfig, parse_rope


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
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
    rope: RopeConfig

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim


def parse_llama_config(config: Mapping[str, Any]) -> LlamaConfig:
    """Raises ModelUnusable for a missing key or for a variant that we would compute wrongly."""
    for key in ("attention_bias", "mlp_bias", "quantization_config"):
        if config.get(key):
            raise ModelUnusable(f"config.json asks for {key}, which we do not run for Llama")
    if config.get("hidden_act", "silu") != "silu":
        raise ModelUnusable(f"hidden_act {config['hidden_act']!r} is not one that we run: silu")
    try:
        return _parse(config)
    except KeyError as error:
        raise ModelUnusable(f"config.json does not say {error.args[0]}") from error


def _parse(config: Mapping[str, Any]) -> LlamaConfig:
    num_heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // num_heads
    return LlamaConfig(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=num_heads,
        num_kv_heads=config.get("num_key_value_heads") or num_heads,
        head_dim=head_dim,
        rms_norm_eps=config["rms_norm_eps"],
        max_position_embeddings=config["max_position_embeddings"],
        tied_head=config.get("tie_word_embeddings", False),
        rope=parse_rope(config),
    )
