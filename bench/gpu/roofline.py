"""The least GPU time of one of many requests behind one shared prompt: an arithmetic of bytes and
operations, with the prompt computed once and read once a step for all.
"""

from dataclasses import dataclass

from bench.floor import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Operations a second of large products and of attention, and bytes a second."""

    gemm_flops: float
    attention_flops: float
    bytes_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Tokens of each request: shared with all others, its own, and to be given."""

    shared: int
    own: int
    output: int


def request_seconds(shape: Shape, load: Load, card: Card, *, itemsize: int = 2) -> float:
    """itemsize: bytes of a number"""
    return (
        _products(shape, load) / card.gemm_flops
        + _attention_flops(shape, load) / card.attention_flops
        + _bytes(shape, load, itemsize) / card.bytes_s
    )


def _products(shape: Shape, load: Load) -> int:
    fed = load.own + load.output
    return 2 * shape.layer_weights * fed + 2 * shape.head_weights * load.output


def _attention_flops(shape: Shape, load: Load) -> float:
    """Of the prefill, and of the decodes over the shared prompt, which is in fast memory."""
    per_pair = 4 * shape.layers * shape.heads * shape.head_dim
    prefill = load.own * (load.shared + load.own / 2)
    return per_pair * (prefill + load.output * load.shared)


def _bytes(shape: Shape, load: Load, itemsize: int) -> float:
    """Of the decodes' own K and V, and of what passes between the kernels of a layer."""
    kv = 2 * shape.layers * shape.kv_heads * shape.head_dim * itemsize
    own_kv = load.output * (load.own + load.output / 2) * kv
    heads = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    values = shape.layers * (8 * shape.hidden + 2 * heads + 3 * shape.intermediate)
    return own_kv + (load.own + load.output) * values * itemsize
