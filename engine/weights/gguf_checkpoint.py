"""Opens a GGUF file as if it were a Hugging Face checkpoint: same names, same order of rows."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.errors import ModelUnusable
from engine.weights.checkpoint import Checkpoint
from engine.weights.digest import files_digest
from engine.weights.gguf_file import GgufFile

ARCHITECTURES = {"llama": "LlamaForCausalLM"}

QUANTIZATIONS = frozenset({"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K"})

OUTER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "rope_freqs.weight": "rope_freqs.weight",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def open_gguf(file: GgufFile) -> Checkpoint:
    """Raises ModelUnusable for an architecture or a quantisation that we cannot run."""
    config = _config(file)
    gguf_names = {_hugging_face_name(file.path, name): name for name in file.names}
    for name in file.names:
        if file.quantization(name) not in QUANTIZATIONS:
            raise ModelUnusable(
                f"{file.path}: {name} is quantised as {file.quantization(name)}; "
                f"we read {', '.join(sorted(QUANTIZATIONS))}"
            )

    def tensor(name: str) -> torch.Tensor:
        array = file.array(gguf_names[name])
        if name.endswith("q_proj.weight"):
            array = _in_halves(array, config["num_attention_heads"])
        elif name.endswith("k_proj.weight"):
            array = _in_halves(array, config["num_key_value_heads"])
        return torch.from_numpy(np.array(array, dtype=np.float32))

    return Checkpoint(
        source=str(file.path),
        config=config,
        names=frozenset(gguf_names),
        tensor=tensor,
        digest=files_digest([file.path]),
    )


def _config(file: GgufFile) -> dict[str, Any]:
    arch = file.require("general.architecture")
    if arch not in ARCHITECTURES:
        raise ModelUnusable(
            f"{file.path} is of architecture {arch!r}; we run {', '.join(sorted(ARCHITECTURES))}"
        )
    num_heads = file.require(f"{arch}.attention.head_count")
    hidden_size = file.require(f"{arch}.embedding_length")
    return {
        "architectures": [ARCHITECTURES[arch]],
        "vocab_size": file.num_rows("token_embd.weight"),
        "hidden_size": hidden_size,
        "intermediate_size": file.require(f"{arch}.feed_forward_length"),
        "num_hidden_layers": file.require(f"{arch}.block_count"),
        "num_attention_heads": num_heads,
        "num_key_value_heads": file.get(f"{arch}.attention.head_count_kv", num_heads),
        "head_dim": file.get(f"{arch}.attention.key_length", hidden_size // num_heads),
        "rms_norm_eps": file.require(f"{arch}.attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": file.require(f"{arch}.context_length"),
        "tie_word_embeddings": "output.weight" not in file.names,
        "hidden_act": "silu",
        "rope_parameters": _rope(file, arch),
    }


def _rope(file: GgufFile, arch: str) -> dict[str, Any]:
    rope: dict[str, Any] = {
        "rope_type": file.get(f"{arch}.rope.scaling.type", "none"),
        "rope_theta": file.get(f"{arch}.rope.freq_base", 10000.0),
        "factor": file.get(f"{arch}.rope.scaling.factor", 1.0),
    }
    if rope["rope_type"] == "none":
        rope["rope_type"] = "default"
    return rope


def _hugging_face_name(path: Path, name: str) -> str:
    if name in OUTER_NAMES:
        return OUTER_NAMES[name]
    match name.split("."):
        case ["blk", layer, part, "weight"] if part in LAYER_NAMES:
            return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"
    raise ModelUnusable(f"{path} has a tensor that we do not know: {name}")


def _in_halves(array: Any, num_heads: int) -> Any:
    """Undo the order in which GGUF keeps the rows of q and k.

    It puts the two coordinates that rotate together side by side; we rotate one half of a head
    against the other.
    """
    rows, columns = array.shape
    pairs = array.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)
