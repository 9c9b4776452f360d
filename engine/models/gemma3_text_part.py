"""The text part of a Gemma 3 checkpoint that can also see: its images' part is left unread."""

from typing import Any

import torch

from engine.errors import ModelUnusable
from engine.models.decoder import Decoder
from engine.models.gemma3 import load_gemma3
from engine.weights.checkpoint import Checkpoint

# Where the decoder's weights lie, as older and newer files have it: (ours, theirs).
PREFIXES = (
    (("model.", "language_model.model."), ("lm_head.", "language_model.lm_head.")),
    (("model.", "model.language_model."), ("lm_head.", "lm_head.")),
)
# What such a config leaves out where it is as in most of the family.
DEFAULTS: dict[str, Any] = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 131_072,
}


def load_gemma3_text_part(
    checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype
) -> Decoder:
    """Raises ModelUnusable if the config or a weight is not what we run."""
    config = checkpoint.config.get("text_config")
    if not isinstance(config, dict):
        raise ModelUnusable(f"{checkpoint.source}: config.json does not say text_config")
    theirs = _their_names(checkpoint)
    quantized = {"quantization_config": checkpoint.config.get("quantization_config")}
    text_part = Checkpoint(
        source=checkpoint.source,
        config=DEFAULTS | config | quantized,
        names=frozenset(theirs),
        tensor=lambda name: checkpoint.tensor(theirs[name]),
        digest=checkpoint.digest,
    )
    return load_gemma3(text_part, device=device, dtype=dtype)


def _their_names(checkpoint: Checkpoint) -> dict[str, str]:
    """Our names of the decoder's weights, and the checkpoint's."""
    for prefixes in PREFIXES:
        found = {
            ours + name.removeprefix(theirs): name
            for ours, theirs in prefixes
            for name in checkpoint.names
            if name.startswith(theirs)
        }
        if "model.norm.weight" in found:
            return found
    raise ModelUnusable(f"{checkpoint.source} has no weights of a decoder of text")
