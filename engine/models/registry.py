"""Which architectures we run, by the name that a checkpoint's config gives."""

from collections.abc import Callable

import torch

from engine.errors import ModelUnusable
from engine.models.llama import Llama
from engine.models.llama_weights import load_llama
from engine.weights.checkpoint import Checkpoint

LOADERS: dict[str, Callable[..., Llama]] = {"LlamaForCausalLM": load_llama}


def load_model(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> Llama:
    """Raises ModelUnusable for an architecture that we do not know."""
    named = checkpoint.config.get("architectures") or ["(none)"]
    loader = LOADERS.get(named[0])
    if loader is None:
        raise ModelUnusable(
            f"{checkpoint.source} is of architecture {named[0]}; we run {', '.join(LOADERS)}"
        )
    return loader(checkpoint, device=device, dtype=dtype)
