"""Opens a GGUF file as if it were a Hugging Face checkpoint: same names, same numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.errors import ModelUnusable
from engine.weights.checkpoint import Checkpoint
from engine.weights.digest import files_digest
from engine.weights.gguf_architectures import (
    GGUF_ARCHITECTURES,
    OUTER_NAMES,
    GgufArchitecture,
    rope_scaling,
)
from engine.weights.gguf_file import GgufFile

QUANTIZATIONS = frozenset({"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K"})


def open_gguf(file: GgufFile) -> Checkpoint:
    """Raises ModelUnusable for an architecture or a quantisation that we cannot run."""
    architecture = _architecture(file)
    config = _config(file, architecture)
    gguf_names = {
        _hugging_face_name(file.path, name, architecture.layer_names): name for name in file.names
    }
    for name in file.names:
        if file.quantization(name) not in QUANTIZATIONS:
            raise ModelUnusable(
                f"{file.path}: {name} is quantised as {file.quantization(name)}; "
                f"we read {', '.join(sorted(QUANTIZATIONS))}"
            )

    def tensor(name: str) -> torch.Tensor:
        array = _translated(file.array(gguf_names[name]), name, config, architecture)
        # A copy only of what is still the file's own, which may not be written to.
        return torch.from_numpy(np.require(array, np.float32, ["C", "W"]))

    return Checkpoint(
        source=str(file.path),
        config=config,
        names=frozenset(gguf_names),
        tensor=tensor,
        digest=files_digest([file.path]),
    )


def _architecture(file: GgufFile) -> GgufArchitecture:
    arch = file.require("general.architecture")
    if arch not in GGUF_ARCHITECTURES:
        known = ", ".join(sorted(GGUF_ARCHITECTURES))
        raise ModelUnusable(f"{file.path} is of architecture {arch!r}; we run {known}")
    return GGUF_ARCHITECTURES[arch]


def _config(file: GgufFile, architecture: GgufArchitecture) -> dict[str, Any]:
    arch = file.require("general.architecture")
    num_heads = file.require(f"{arch}.attention.head_count")
    hidden_size = file.require(f"{arch}.embedding_length")
    theta = {"rope_theta": file.get(f"{arch}.rope.freq_base", 10000.0)}
    common = {
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
        "rope_parameters": theta | rope_scaling(file, arch),
    }
    return common | dict(architecture.config(file))


def _hugging_face_name(path: Path, name: str, layer_names: Mapping[str, str]) -> str:
    if name in OUTER_NAMES:
        return OUTER_NAMES[name]
    match name.split("."):
        case ["blk", layer, part, ("weight" | "bias") as kind] if part in layer_names:
            return f"model.layers.{layer}.{layer_names[part]}.{kind}"
    raise ModelUnusable(f"{path} has a tensor that we do not know: {name}")


def _translated(
    array: Any, name: str, config: Mapping[str, Any], architecture: GgufArchitecture
) -> Any:
    if architecture.norms_plus_one and name.endswith("norm.weight"):
        return array - 1
    heads = {
        "q_proj.weight": config["num_attention_heads"],
        "k_proj.weight": config["num_key_value_heads"],
    }
    for ending, num_heads in heads.items():
        if architecture.rotates_neighbours and name.endswith(ending):
            return _in_halves(array, num_heads)
    return array


def _in_halves(array: Any, num_heads: int) -> Any:
    """Bring rows that rotate together from side by side to half a head apart."""
    rows, columns = array.shape
    pairs = array.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)
