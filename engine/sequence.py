"""One request's tokens while they are being computed.

Integers only: no torch, no text.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from engine.depth_first import Place
from engine.prefix_tree import Node


class State(StrEnum):
    WAITING = "waiting"
    PARKED = "parked"  # waiting for another sequence to compute the prefix they share
    RUNNING = "running"
    ENDED = "ended"


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence:
    """`token_ids` holds the prompt, then every sampled token.

    seq_id: in order of arrival; place: in depth-first order of the prefix tree
    max_tokens: completion tokens, not total
    max_tokens_given: whether the client named that limit, or it is only where the model's ends
    tail: the partial block at the prompt's end, if others may share it
    shares_tail: whether it lies in a block that somebody else may write to
    num_computed_tokens: tokens whose K and V are in the cache
    num_reused_tokens: the first of them, which lie in blocks that others may read: not written to
    num_dropped_blocks: the first ones of its block table and path, behind the window of all its
        layers: they are no longer its own, and nothing reads what the table names for them
    private_blocks: forecast of the blocks it needs beyond its path
    promised_blocks: how many of them are promised to it
    """

    seq_id: int
    request_id: str
    token_ids: list[int]
    max_tokens: int
    max_tokens_given: bool = True
    priority: int = 0
    salt: str = ""
    adapter: str = ""

    state: State = State.WAITING
    num_prompt_tokens: int = field(init=False)
    num_computed_tokens: int = 0
    num_reused_tokens: int = 0
    num_cached_prompt_tokens: int | None = None  # set when it first runs
    block_table: list[int] = field(default_factory=list)
    path: list[Node] = field(default_factory=list)
    tail: Node | None = None
    shares_tail: bool = False
    place: Place = ()
    num_dropped_blocks: int = 0
    private_blocks: int = 0
    promised_blocks: int = 0

    def __post_init__(self) -> None:
        self.num_prompt_tokens = len(self.token_ids)

    @property
    def has_run(self) -> bool:
        return self.num_cached_prompt_tokens is not None

    @property
    def has_computed_its_prompt(self) -> bool:
        return self.num_computed_tokens >= self.num_prompt_tokens

    @property
    def order(self) -> tuple[int, int]:
        """Sorts the sequence that runs first and is preempted last to the front."""
        return (-self.priority, self.seq_id)

    @property
    def num_owed_tokens(self) -> int:
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def max_total_tokens(self) -> int:
        return self.num_prompt_tokens + self.max_tokens

    @property
    def held_blocks(self) -> list[int]:
        return self.block_table[self.num_dropped_blocks :]

    @property
    def output_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]
