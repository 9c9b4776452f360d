"""What a model needs of its past if every layer sees the last tokens only.

K and V before the window of the next token are read by nobody who goes on from there.  Whoever
starts behind a prefix needs no more of it either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.prefix_tree import Node


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """tokens: how many a token sees, itself included
    max_at_once: tokens of one sequence that a step computes at most
    """

    tokens: int
    max_at_once: int
    block_size: int

    def first_needed(self, position: int) -> int:
        """The first block of a sequence that its token at `position` sees anything of."""
        return max(0, position - self.tokens + 1) // self.block_size

    def most_blocks(self, num_owed_tokens: int) -> int:
        """Blocks that a sequence holds at once, at most, from now on."""
        seen = self.tokens - 1 + min(self.max_at_once, max(1, num_owed_tokens))
        return (seen + self.block_size - 2) // self.block_size + 1

    def resident(self, path: Sequence[Node], num_tokens: int) -> tuple[int, int]:
        """(first, end): the blocks that are there for a sequence of `num_tokens` to go on from.

        Those from `first` to before `end` are resident, and nobody who goes on from `end` sees
        those before `first`.  As many as possible.
        """
        found = gap_end = 0
        for index, node in enumerate(path):
            if node.block is None:
                gap_end = index + 1
            elif gap_end <= self._first_after(index + 1, num_tokens):
                found = index + 1
        return self._first_after(found, num_tokens), found

    def _first_after(self, num_blocks: int, num_tokens: int) -> int:
        # The last token is computed anew even where it is resident.
        return self.first_needed(min(num_blocks * self.block_size, num_tokens - 1))
