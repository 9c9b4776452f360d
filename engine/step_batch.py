"""What one step computes."""

from dataclasses import dataclass, field

from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Chunk:
    """`num_tokens` tokens of one sequence, starting at token `start`.

    samples: this chunk pays the whole debt, so its last logits give the next token
    """

    seq: Sequence
    start: int
    num_tokens: int
    samples: bool

    @property
    def is_prefill(self) -> bool:
        """Whether it computes anything but the one token that was sampled last."""
        return self.num_tokens > 1 or self.start < self.seq.num_prompt_tokens


@dataclass(slots=True)
class StepBatch:
    """The chunks of one step.

    budget: counts down the tokens still to give out
    decodes: the chunks of exactly one token
    started: sequences that had never run before
    copies: (from, to) blocks whose contents are copied before anything is computed, all at once
    """

    budget: int
    decodes: list[Chunk] = field(default_factory=list)
    prefills: list[Chunk] = field(default_factory=list)
    started: list[Sequence] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)

    @property
    def chunks(self) -> list[Chunk]:
        """In the order in which they are computed: chunks of one token first."""
        return self.decodes + self.prefills

    def add(self, seq: Sequence, num_tokens: int) -> None:
        chunk = Chunk(
            seq, seq.num_computed_tokens, num_tokens, samples=num_tokens == seq.num_owed_tokens
        )
        (self.decodes if num_tokens == 1 else self.prefills).append(chunk)
        self.budget -= num_tokens
