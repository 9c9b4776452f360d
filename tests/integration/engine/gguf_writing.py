"""Writes a Hugging Face folder as a GGUF, the way llama.cpp's converter does."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from transformers import LlamaForCausalLM

from engine.weights.gguf_checkpoint import LAYER_NAMES, OUTER_NAMES

CONTROL, NORMAL = 3, 1


def write_gguf(model: LlamaForCausalLM, folder: Path, path: Path, quantization: str) -> None:
    """Matrices are quantised as asked and vectors kept in fp32.

    The model's own matrices become what the file can be read back as, so that both are equal.
    """
    writer = gguf.GGUFWriter(path, "llama")
    _write_shape(writer, model.config)
    _write_tokenizer(writer, folder)
    kind = gguf.GGMLQuantizationType[quantization]
    for name, parameter in model.state_dict().items():
        array = parameter.numpy()
        if array.ndim == 1:
            writer.add_tensor(_gguf_name(name), array)
            continue
        quantized = gguf.quants.quantize(_in_pairs(name, array, model.config), kind)
        writer.add_tensor(_gguf_name(name), quantized, raw_dtype=kind)
        array[:] = gguf.quants.dequantize(gguf.quants.quantize(array, kind), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_shape(writer: Any, config: Any) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def _write_tokenizer(writer: Any, folder: Path) -> None:
    saved = json.loads((folder / "tokenizer.json").read_text())
    vocab = saved["model"]["vocab"]
    special = {token["content"] for token in saved["added_tokens"]}
    tokens = sorted(vocab, key=vocab.__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if token in special else NORMAL for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in saved["model"]["merges"]])
    writer.add_eos_token_id(0)
    writer.add_chat_template((folder / "chat_template.jinja").read_text())


def _gguf_name(name: str) -> str:
    outer = {hugging_face: ours for ours, hugging_face in OUTER_NAMES.items()}
    if name in outer:
        return outer[name]
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    layers = {hugging_face: ours for ours, hugging_face in LAYER_NAMES.items()}
    return f"blk.{layer}.{layers[part]}.weight"


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
