"""Writes a Hugging Face folder as a GGUF, the way llama.cpp's converter does."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from transformers import PreTrainedModel

from tests.integration.engine.k_quants import pack_q4_k, pack_q6_k

CONTROL, NORMAL = 3, 1
ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
}
PACKERS = {"Q4_K": pack_q4_k, "Q6_K": pack_q6_k}


def write_gguf(
    model: PreTrainedModel, folder: Path, path: Path, quantization: str, *, words: str = "gpt-2"
) -> None:
    """Matrices are quantised as asked and vectors kept in fp32.

    The model's own matrices become what the file can be read back as, so that both are equal.
    """
    config = model.config
    architecture = ARCHITECTURES[config.model_type]
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    _write_shape(writer, config)
    _write_tokenizer(writer, folder, words)
    for name, parameter in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = parameter.numpy()
        gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if array.ndim == 1:
            is_gemma_norm = architecture == gguf.MODEL_ARCH.GEMMA3
            writer.add_tensor(gguf_name, array + np.float32(is_gemma_norm))
            continue
        packed, array[:] = _pack(array, quantization)
        if architecture == gguf.MODEL_ARCH.LLAMA:
            packed = _in_pairs(name, packed, config)
        kind = gguf.GGMLQuantizationType[quantization]
        writer.add_tensor(gguf_name, packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _pack(array: np.ndarray, quantization: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows as the file holds them, and the numbers that they stand for."""
    if quantization in PACKERS:
        return PACKERS[quantization](array)
    kind = gguf.GGMLQuantizationType[quantization]
    packed = gguf.quants.quantize(array, kind)
    return packed, gguf.quants.dequantize(packed, kind)


def _write_shape(writer: Any, config: Any) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if hasattr(config, "head_dim"):
        writer.add_key_length(config.head_dim)
    if config.model_type in ("mistral", "gemma3_text") and config.sliding_window:
        writer.add_sliding_window(config.sliding_window)
    rope = config.rope_parameters
    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])


def _write_tokenizer(writer: Any, folder: Path, words: str) -> None:
    saved = json.loads((folder / "tokenizer.json").read_text())
    vocab = saved["model"]["vocab"]
    special = {token["content"] for token in saved["added_tokens"]}
    tokens = sorted(vocab, key=vocab.__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(words)
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if token in special else NORMAL for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in saved["model"]["merges"]])
    writer.add_eos_token_id(0)
    writer.add_chat_template((folder / "chat_template.jinja").read_text())


def _in_pairs(name: str, array: np.ndarray, config: Any) -> np.ndarray:
    heads = {
        "q_proj.weight": config.num_attention_heads,
        "k_proj.weight": config.num_key_value_heads,
    }
    for ending, num_heads in heads.items():
        if name.endswith(ending):
            halves = array.reshape(num_heads, 2, -1, array.shape[1])
            return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(array.shape)
    return array
