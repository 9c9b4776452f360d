"""Qwen 3: a Llama that normalises every head of q and k, of a size that its config gives."""

from dataclasses import replace

import torch

from engine.models.attention import NormedHeads
from engine.models.decoder import Decoder, DecoderLayer
from engine.models.parts import read_attention, read_decoder, read_layer, read_rotary
from engine.models.rope import parse_rope
from engine.models.shape import parse_shape, refuse_unless
from engine.models.weight_reader import WeightReader
from engine.models.windows import optional_windows, widest
from engine.weights.checkpoint import Checkpoint


def load_qwen3(checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> Decoder:
    """Raises ModelUnusable if the config or a weight is not what we run."""
    config = checkpoint.config
    refuse_unless(config, activation="silu", unset=("attention_bias",))
    shape = parse_shape(config)
    windows = optional_windows(config, shape.num_layers)
    shape = replace(shape, window=widest(windows))
    reader = WeightReader(checkpoint, device=device, dtype=dtype)
    rotary = read_rotary(reader, shape, parse_rope(config))

    def layer(index: int) -> DecoderLayer:
        prefix = f"model.layers.{index}"
        place = NormedHeads(
            rotary,
            q_weight=reader.read(f"{prefix}.self_attn.q_norm.weight", shape.head_dim),
            k_weight=reader.read(f"{prefix}.self_attn.k_norm.weight", shape.head_dim),
            eps=shape.rms_norm_eps,
        )
        attention = read_attention(reader, shape, prefix, place=place, window=windows[index])
        return read_layer(reader, shape, prefix, attention)

    return read_decoder(reader, shape, layer)
