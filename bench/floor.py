"""The least time in which a machine could compute a workload: its operations over its ceiling.

Each shared prefix counts once, a multiplication and an addition count as two operations, and what
is no matrix product counts nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self


class Work(NamedTuple):
    """One request: the tokens of its prompt, and how many more it is to give."""

    prompt: Sequence[int]
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What of a model decides how many operations a token costs."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """config: what the model's config.json says"""
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        return cls(
            hidden=hidden,
            intermediate=config["intermediate_size"],
            layers=config["num_hidden_layers"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or hidden // heads,
            vocabulary=config["vocab_size"],
        )

    @property
    def layer_weights(self) -> int:
        """Weights of all layers' matrices."""
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self.head_dim
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head_weights(self) -> int:
        return self.hidden * self.vocabulary

    def attention_flops(self, first: int, end: int) -> int:
        """Of the tokens at positions first to end - 1, each over itself and all before it."""
        seen = (end * (end + 1) - first * (first + 1)) // 2
        return 4 * self.layers * self.heads * self.head_dim * seen


@dataclass(frozen=True, slots=True)
class Operations:
    linear: int
    head: int
    attention: int

    @property
    def total(self) -> int:
        return self.linear + self.head + self.attention

    def seconds(self, *, gflops: float) -> float:
        return self.total / (gflops * 1e9)


def operations(shape: Shape, works: Iterable[Work]) -> Operations:
    """Count a workload's.

    Of prompts in order, the tokens that one has in common with the one before it are exactly those
    that it has in common with any before it.
    """
    fed = attention = outputs = 0
    before: Sequence[int] = ()
    for work in sorted(works, key=lambda work: list(work.prompt)):
        # The last prompt token is always computed, for its logits; the last output token never.
        shared = min(common_length(before, work.prompt), len(work.prompt) - 1)
        end = len(work.prompt) + work.output_tokens - 1
        fed += end - shared
        attention += shape.attention_flops(shared, end)
        outputs += work.output_tokens
        before = work.prompt
    return Operations(
        linear=2 * shape.layer_weights * fed,
        head=2 * shape.head_weights * outputs,
        attention=attention,
    )


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = zip(left, right, strict=False)
    shorter = min(len(left), len(right))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)
