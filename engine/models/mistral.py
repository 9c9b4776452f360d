"""Mistral: a Llama whose layers see a sliding window, where its config has one."""

from dataclasses import replace

import torch

from engine.models.decoder import Decoder, DecoderLayer
from engine.models.parts import read_attention, read_decoder, read_layer, read_rotary
from engine.models.rope import parse_rope
from engine.models.shape import parse_shape, refuse_unless
from engine.models.weight_reader import WeightReader
from engine.weights.checkpoint import Checkpoint

# Of a config that does not say; one without a window says null.
DEFAULT_WINDOW = 4096


def load_mistral(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> Decoder:
    """Raises ModelUnusable if the config or a weight is not what we run."""
    config = checkpoint.config
    refuse_unless(config, activation="silu", unset=())
    window = config.get("sliding_window", DEFAULT_WINDOW)
    shape = replace(parse_shape(config), window=window)
    reader = WeightReader(checkpoint, device=device, dtype=dtype)
    rotary = read_rotary(reader, shape, parse_rope(config))

    def layer(index: int) -> DecoderLayer:
        prefix = f"model.layers.{index}"
        attention = read_attention(reader, shape, prefix, place=rotary, window=window)
        return read_layer(reader, shape, prefix, attention)

    return read_decoder(reader, shape, layer)
