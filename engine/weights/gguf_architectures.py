"""What a GGUF calls things, by architecture, and what Hugging Face calls the same.

A GGUF of some architectures also holds other numbers: rows in another order, norms plus one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.weights.gguf_file import GgufFile

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
HEAD_NORM_NAMES = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
GEMMA_NORM_NAMES = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
GEMMA_3_27B_LAYERS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufArchitecture:
    """config: what config.json would say beyond, or other than, what every architecture says
    rotates_neighbours: rows of q and k that rotate together stand side by side, not half a head
        apart
    norms_plus_one: norms are stored as their factor, where Hugging Face has its distance from one
    """

    config: Callable[[GgufFile], Mapping[str, Any]]
    layer_names: Mapping[str, str]
    rotates_neighbours: bool = False
    norms_plus_one: bool = False


def rope_scaling(file: GgufFile, arch: str) -> dict[str, Any]:
    kind = file.get(f"{arch}.rope.scaling.type", "none")
    scaling = {
        "rope_type": "default" if kind == "none" else kind,
        "factor": file.get(f"{arch}.rope.scaling.factor", 1.0),
    }
    original = file.get(f"{arch}.rope.scaling.original_context_length")
    return scaling if original is None else scaling | {"original_max_position_embeddings": original}


def _llama(file: GgufFile) -> Mapping[str, Any]:
    # Mistral goes by the same name; what tells it is its window.
    window = file.get("llama.attention.sliding_window")
    if window is None:
        return {"architectures": ["LlamaForCausalLM"]}
    return {"architectures": ["MistralForCausalLM"], "sliding_window": window}


def _qwen2(file: GgufFile) -> Mapping[str, Any]:
    return {"architectures": ["Qwen2ForCausalLM"]}


def _qwen3(file: GgufFile) -> Mapping[str, Any]:
    return {"architectures": ["Qwen3ForCausalLM"]}


def _gemma3(file: GgufFile) -> Mapping[str, Any]:
    full = {"rope_theta": file.get("gemma3.rope.freq_base", 1_000_000.0)}
    sliding = {"rope_theta": file.get("gemma3.rope.freq_base_swa", 10_000.0)}
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "hidden_act": "gelu_pytorch_tanh",
        "sliding_window": file.require("gemma3.attention.sliding_window"),
        "query_pre_attn_scalar": _query_scalar(file),
        "rope_parameters": {
            "full_attention": full | rope_scaling(file, "gemma3"),
            "sliding_attention": sliding,
        },
    }


def _query_scalar(file: GgufFile) -> int:
    """The file does not say it: it is the size of a head, but for the 27B model."""
    if file.require("gemma3.block_count") == GEMMA_3_27B_LAYERS:
        heads: int = file.require("gemma3.attention.head_count")
        return int(file.require("gemma3.embedding_length")) // heads
    return int(file.require("gemma3.attention.key_length"))


GGUF_ARCHITECTURES = {
    "llama": GgufArchitecture(config=_llama, layer_names=LAYER_NAMES, rotates_neighbours=True),
    "qwen2": GgufArchitecture(config=_qwen2, layer_names=LAYER_NAMES),
    "qwen3": GgufArchitecture(config=_qwen3, layer_names=LAYER_NAMES | HEAD_NORM_NAMES),
    "gemma3": GgufArchitecture(
        config=_gemma3,
        layer_names=LAYER_NAMES | HEAD_NORM_NAMES | GEMMA_NORM_NAMES,
        norms_plus_one=True,
    ),
}
