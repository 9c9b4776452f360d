"""Reads a decoder's parts by the names that Hugging Face gives them, the same in all architectures.

Matrices that are always applied to the same input are fused.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional as F

from engine.models.attention import Attention, Placing, Rotary
from engine.models.decoder import Decoder, DecoderLayer
from engine.models.feed_forward import FeedForward
from engine.models.linear import Linear
from engine.models.rope import RopeConfig, cos_sin_table, inverse_frequencies
from engine.models.shape import ModelShape
from engine.models.weight_reader import WeightReader
from kernels import silu_mul


def read_decoder(
    reader: WeightReader, shape: ModelShape, layer: Callable[[int], DecoderLayer]
) -> Decoder:
    """The plain frame: embeddings as they are, one last norm, a head of its own or tied.

    layer: reads the layer of a number
    """
    # First the largest: while it is converted it is in memory several times.
    embed, head = _read_ends(reader, shape)
    return Decoder(
        shape,
        [layer(index) for index in range(shape.num_layers)],
        embed=embed,
        final_norm=reader.read("model.norm.weight", shape.hidden_size),
        head=head,
    )


def _read_ends(
    reader: WeightReader, shape: ModelShape
) -> tuple[Callable[[torch.Tensor], torch.Tensor], Linear]:
    embedding = read_embedding(reader, shape)
    head = read_head(reader, shape, embedding)
    # A tied head keeps the embeddings already; not to keep them twice saves their memory.
    rows = head.rows if shape.tied_head else None
    return rows or partial(F.embedding, weight=embedding), head


def read_embedding(reader: WeightReader, shape: ModelShape) -> torch.Tensor:
    return reader.read("model.embed_tokens.weight", shape.vocab_size, shape.hidden_size)


def read_head(reader: WeightReader, shape: ModelShape, embedding: torch.Tensor) -> Linear:
    if shape.tied_head:
        return reader.product(embedding)
    return reader.linear({"lm_head": shape.vocab_size}, shape.hidden_size)


def read_layer(
    reader: WeightReader, shape: ModelShape, prefix: str, attention: Attention
) -> DecoderLayer:
    """The plain layer: a norm before the attention, a norm before a SwiGLU."""
    return DecoderLayer(
        input_norm=reader.read(f"{prefix}.input_layernorm.weight", shape.hidden_size),
        attend=attention,
        feed_forward_norm=reader.read(
            f"{prefix}.post_attention_layernorm.weight", shape.hidden_size
        ),
        feed_forward=read_feed_forward(reader, shape, prefix, gated=silu_mul),
    )


def read_attention(
    reader: WeightReader,
    shape: ModelShape,
    prefix: str,
    *,
    place: Placing,
    biased: bool = False,
    window: int | None = None,
) -> Attention:
    """Attention scaled as usual.  biased: whether q, k and v have biases."""
    rows = {
        f"{prefix}.self_attn.q_proj": shape.q_size,
        f"{prefix}.self_attn.k_proj": shape.kv_size,
        f"{prefix}.self_attn.v_proj": shape.kv_size,
    }
    return Attention(
        qkv=reader.linear(rows, shape.hidden_size, biased=biased),
        output=reader.linear({f"{prefix}.self_attn.o_proj": shape.hidden_size}, shape.q_size),
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        place=place,
        scale=shape.head_dim**-0.5,
        window=window,
    )


def read_feed_forward(
    reader: WeightReader,
    shape: ModelShape,
    prefix: str,
    *,
    gated: Callable[[torch.Tensor], torch.Tensor],
) -> FeedForward:
    rows = dict.fromkeys(
        (f"{prefix}.mlp.gate_proj", f"{prefix}.mlp.up_proj"), shape.intermediate_size
    )
    return FeedForward(
        gate_up=reader.linear(rows, shape.hidden_size),
        gated=gated,
        down=reader.linear({f"{prefix}.mlp.down_proj": shape.hidden_size}, shape.intermediate_size),
    )


def read_rotary(reader: WeightReader, shape: ModelShape, rope: RopeConfig) -> Rotary:
    frequencies = inverse_frequencies(rope, shape.head_dim)
    factors = reader.as_written("rope_freqs.weight")
    if factors is not None:
        # A GGUF brings the result of Llama 3's scaling instead of its parameters.
        frequencies = frequencies / factors
    table = cos_sin_table(frequencies, shape.max_position_embeddings, amplitude=rope.amplitude)
    return Rotary(reader.on_device(table))
