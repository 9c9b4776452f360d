"""`gristmill plan`: how many requests a card holds at once, before anything is loaded."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from bench.floor import Shape
from cli.errors import CommandFailed

# What the engine takes of a card, unless told otherwise.
MEMORY_FRACTION = 0.9
_BLOCK = 16  # tokens

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]i?B)")
_GIB = 2**30


class Precision(StrEnum):
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def item_bytes(self) -> int:
        return 4 if self is Precision.FP32 else 2


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes, and tokens of KV.  What a step computes in between is left out: some per cent."""

    usable_bytes: int
    weight_bytes: int
    kv_bytes_per_token: int
    pool_tokens: int

    def concurrency(self, max_model_len: int) -> float:
        """Requests of so many tokens at once, if they share nothing."""
        blocks_each = -(-max_model_len // _BLOCK)
        return self.pool_tokens / (blocks_each * _BLOCK)


def plan(
    *,
    model: Annotated[str, typer.Option(help="A folder, a .gguf file, or a bundled model's name.")],
    memory: Annotated[str, typer.Option(help="The card's, like 80GiB or 24GB.")],
    max_model_len: Annotated[
        int, typer.Option(min=1, help="Tokens of a request, answer included.")
    ],
    precision: Annotated[Precision, typer.Option(help="Of weights and KV.")] = Precision.BF16,
) -> None:
    """Say how many requests a card holds at once, before anything is loaded."""
    # Here, for torch is slow to import beside every other command.
    from engine.opening import open_model

    size = parse_size(memory)
    config = open_model(model)[0].config
    tied = bool(config.get("tie_word_embeddings"))
    found = kv_plan(Shape.of(config), memory=size, item_bytes=precision.item_bytes, tied_head=tied)
    print("\n".join(lines(found, max_model_len=max_model_len)))


def parse_size(text: str) -> int:
    """Bytes of `80GiB`, `24 GB`, `512MiB`.  Raises CommandFailed."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise CommandFailed(f"{text!r} is no amount of memory; write it like 80GiB or 24GB")
    return int(float(match[1]) * _UNITS[match[2]])


def kv_plan(shape: Shape, *, memory: int, item_bytes: int, tied_head: bool) -> Plan:
    """memory: bytes of the card; item_bytes: of a number.  Raises CommandFailed if the weights
    leave no room."""
    matrices = shape.layer_weights + shape.head_weights * (1 if tied_head else 2)
    norms = (2 * shape.layers + 1) * shape.hidden
    weights = (matrices + norms) * item_bytes
    usable = int(memory * MEMORY_FRACTION)
    per_token = 2 * shape.layers * shape.kv_heads * shape.head_dim * item_bytes
    num_blocks = (usable - weights) // (per_token * _BLOCK)
    if num_blocks < 1:
        raise CommandFailed(
            f"the weights take {weights / _GIB:.2f} GiB, but only {usable / _GIB:.2f} GiB of the "
            "card may be used: choose a larger card or a narrower precision"
        )
    return Plan(usable, weights, per_token, num_blocks * _BLOCK)


def lines(found: Plan, *, max_model_len: int) -> list[str]:
    """Raises CommandFailed, with both numbers, if not even one request fits."""
    if max_model_len > found.pool_tokens:
        raise CommandFailed(
            f"max_model_len {max_model_len:,} cannot fit: the pool holds {found.pool_tokens:,} "
            "tokens; lower --max-model-len or raise --memory"
        )
    return [
        f"memory      {found.usable_bytes / _GIB:.2f} GiB, {MEMORY_FRACTION:.0%} of the card",
        f"weights     {found.weight_bytes / _GIB:.2f} GiB",
        f"KV          {found.kv_bytes_per_token:,} bytes a token",
        f"pool        {found.pool_tokens:,} tokens in blocks of {_BLOCK}",
        f"concurrency {found.concurrency(max_model_len):.1f}x requests of {max_model_len:,} tokens;"
        " more where they share a prefix",
    ]
