"""A Llama of any size with random weights, written where an engine can load it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from bench.floor import Shape

LLAMA_8B = Shape(
    hidden=4096,
    intermediate=14336,
    layers=32,
    heads=32,
    kv_heads=8,
    head_dim=128,
    vocabulary=128256,
)
QWEN_7B = Shape(
    hidden=3584,
    intermediate=18944,
    layers=28,
    heads=28,
    kv_heads=4,
    head_dim=128,
    vocabulary=152064,
)
TINY = Shape(
    hidden=64, intermediate=128, layers=2, heads=4, kv_heads=2, head_dim=16, vocabulary=512
)

_INDEX = "model.safetensors.index.json"


def write_random_model(
    shape: Shape, folder: Path, *, dtype: torch.dtype, device: torch.device, spread: float
) -> None:
    """Write config, weights (a file a layer) and a tokenizer, in which each token is a word.

    device: where the weights are drawn, for a GPU does that in no time
    spread: of the weights; wide ones make one token clearly the best
    """
    torch.manual_seed(0)
    weight_map: dict[str, str] = {}
    for number, shapes in enumerate(_files(shape)):
        name = f"model-{number:05}.safetensors"
        tensors = {
            weight: _draw(size, dtype, device, spread=spread).cpu()
            for weight, size in shapes.items()
        }
        save_file(tensors, folder / name)
        weight_map |= dict.fromkeys(tensors, name)
    _write_json(folder / _INDEX, {"metadata": {}, "weight_map": weight_map})
    _write_json(folder / "config.json", _config(shape, dtype))
    _write_tokenizer(shape.vocabulary, folder)


def _files(shape: Shape) -> Iterator[dict[str, tuple[int, ...]]]:
    """The shapes of the weights of each file."""
    outer = (shape.vocabulary, shape.hidden)
    yield {
        "model.embed_tokens.weight": outer,
        "lm_head.weight": outer,
        "model.norm.weight": (shape.hidden,),
    }
    q_size, kv_size = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    sizes: dict[str, tuple[int, ...]] = {
        "input_layernorm": (shape.hidden,),
        "self_attn.q_proj": (q_size, shape.hidden),
        "self_attn.k_proj": (kv_size, shape.hidden),
        "self_attn.v_proj": (kv_size, shape.hidden),
        "self_attn.o_proj": (shape.hidden, q_size),
        "post_attention_layernorm": (shape.hidden,),
        "mlp.gate_proj": (shape.intermediate, shape.hidden),
        "mlp.up_proj": (shape.intermediate, shape.hidden),
        "mlp.down_proj": (shape.hidden, shape.intermediate),
    }
    for layer in range(shape.layers):
        yield {f"model.layers.{layer}.{name}.weight": size for name, size in sizes.items()}


def _draw(
    size: tuple[int, ...], dtype: torch.dtype, device: torch.device, *, spread: float
) -> torch.Tensor:
    if len(size) == 1:  # of a norm
        return torch.ones(size, dtype=dtype)
    return torch.randn(size, dtype=dtype, device=device) * spread


def _config(shape: Shape, dtype: torch.dtype) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "dtype": str(dtype).removeprefix("torch."),
    }


def _write_tokenizer(vocabulary: int, folder: Path) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {f"w{token}": token for token in range(vocabulary)}
    backend = Tokenizer(models.WordLevel(words, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(folder)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
