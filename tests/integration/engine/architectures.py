"""A tiny random checkpoint of every architecture, written by transformers' own classes."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from transformers import PreTrainedModel

from tests.fixtures.tiny_model import TINY_SHAPE, make_tokenizer

ALTERNATING = ["sliding_attention", "full_attention"]


class Variant(NamedTuple):
    """name: of transformers' classes; config: overrides of the tiny shape's fields."""

    name: str
    config: dict[str, Any]


VARIANTS = {
    "llama": Variant("Llama", {}),
    "mistral": Variant("Mistral", {"sliding_window": None}),
    "mistral, window": Variant("Mistral", {"sliding_window": 9, "tie_word_embeddings": True}),
    "qwen2": Variant("Qwen2", {"tie_word_embeddings": False}),
    "qwen2, tied head": Variant("Qwen2", {"tie_word_embeddings": True}),
    "qwen2, windows": Variant(
        "Qwen2", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}
    ),
    "qwen2, yarn": Variant(
        "Qwen2",
        {
            "max_position_embeddings": 16,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1000.0,
                "factor": 32.0,
                "original_max_position_embeddings": 16,
                "beta_fast": 2.0,
            },
        },
    ),
    "qwen3": Variant("Qwen3", {"head_dim": 24}),
    "qwen3, windows": Variant(
        "Qwen3", {"use_sliding_window": True, "sliding_window": 9, "layer_types": ALTERNATING}
    ),
    "gemma3": Variant(
        "Gemma3",
        {
            "head_dim": 32,
            "sliding_window": 9,
            "layer_types": ALTERNATING,
            "query_pre_attn_scalar": 40,
            "pad_token_id": None,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                "full_attention": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 8.0},
            },
        },
    ),
    "gemma3, untied head": Variant(
        "Gemma3",
        {
            "sliding_window": 9,
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", *ALTERNATING],
            "tie_word_embeddings": False,
            "pad_token_id": None,
        },
    ),
}


def make_model(variant: Variant) -> PreTrainedModel:
    """Norms and biases are random too: as transformers makes them, they would do nothing."""
    shape = {key: value for key, value in TINY_SHAPE.items() if key != "head_dim"}
    if variant.name != "Qwen2":  # its heads are as large as its hidden size says
        shape["head_dim"] = TINY_SHAPE["head_dim"]
    text = "Text" if variant.name == "Gemma3" else ""
    config = getattr(transformers, f"{variant.name}{text}Config")(**shape | variant.config)
    torch.manual_seed(0)
    model: PreTrainedModel = getattr(transformers, f"{variant.name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def write_model(variant: Variant, folder: Path) -> PreTrainedModel:
    model = make_model(variant)
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return model
