"""Qwen 2 and 2.5: a Llama with biases on q, k and v."""

from dataclasses import replace

import torch

from engine.models.decoder import Decoder, DecoderLayer
from engine.models.parts import read_attention, read_decoder, read_layer, read_rotary
from engine.models.rope import parse_rope
from engine.models.shape import parse_shape, refuse_unless
from engine.models.weight_reader import WeightReader
from engine.models.windows import optional_windows, widest
from engine.weights.checkpoint import Checkpoint


def load_qwen2(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> Decoder:
    """Raises ModelUnusable if the config or a weight is not what we run."""
    config = checkpoint.config
    refuse_unless(config, activation="silu", unset=())
    shape = parse_shape(config)
    windows = optional_windows(config, shape.num_layers)
    shape = replace(shape, window=widest(windows))
    reader = WeightReader(checkpoint, device=device, dtype=dtype)
    rotary = read_rotary(reader, shape, parse_rope(config))

    def layer(index: int) -> DecoderLayer:
        prefix = f"model.layers.{index}"
        attention = read_attention(
            reader, shape, prefix, place=rotary, biased=True, window=windows[index]
        )
        return read_layer(reader, shape, prefix, attention)

    return read_decoder(reader, shape, layer)
