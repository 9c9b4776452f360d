"""Which architectures we run, by the name that a checkpoint's config gives."""

from collections.abc import Callable

import torch

from engine.errors import ModelUnusable
from engine.models.decoder import Decoder
from engine.models.gemma3 import load_gemma3
from engine.models.gemma3_text_part import load_gemma3_text_part
from engine.models.llama import load_llama
from engine.models.mistral import load_mistral
from engine.models.qwen2 import load_qwen2
from engine.models.qwen3 import load_qwen3
from engine.weights.checkpoint import Checkpoint

LOADERS: dict[str, Callable[..., Decoder]] = {
    "LlamaForCausalLM": load_llama,
    "MistralForCausalLM": load_mistral,
    "Qwen2ForCausalLM": load_qwen2,
    "Qwen3ForCausalLM": load_qwen3,
    "Gemma3ForCausalLM": load_gemma3,
    "Gemma3ForConditionalGeneration": load_gemma3_text_part,
}


def load_model(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> Decoder:
    """Raises ModelUnusable for an architecture that we do not know."""
    named = checkpoint.config.get("architectures") or ["(none)"]
    loader = LOADERS.get(named[0])
    if loader is None:
        raise ModelUnusable(
            f"{checkpoint.source} is of architecture {named[0]}; we run {', '.join(LOADERS)}"
        )
    return loader(checkpoint, device=device, dtype=dtype)
