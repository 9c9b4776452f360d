"""Shares the last, partial blocks of equal prompts: those of several completions of one prompt.

Such a block has no node in the tree, for whoever computed it goes on writing behind the prompt's
end.  What lies before that end never changes, so that others may read it, for as long as somebody
holds the block; who wants to write behind it copies the block first.
"""

from engine.block_keys import child_key, pack
from engine.prefix_tree import Node

WORTHWHILE = 2  # tokens; one costs no more to compute than to share, its logits being wanted


class PromptTails:
    def __init__(self) -> None:
        self._tails: dict[bytes, Node] = {}
        self._of_block: dict[int, Node] = {}

    def enter(self, parent: bytes, tokens: list[int]) -> Node | None:
        """Return the tail `tokens` after the blocks that `parent` names; None if not worthwhile."""
        if len(tokens) < WORTHWHILE:
            return None
        content = pack(tokens)
        key = child_key(parent, content)
        tail = self._tails.setdefault(key, Node(key, content))
        if tail.content != content:  # two contents with one hash share nothing
            tail = Node(key, content)
        tail.users += 1
        return tail

    def leave(self, tail: Node) -> None:
        """Undo `enter`."""
        tail.users -= 1
        if not tail.users and self._tails.get(tail.key) is tail:
            del self._tails[tail.key]

    def fill(self, tail: Node, block: int) -> None:
        """`block`, which somebody holds, now has the tail's K and V."""
        tail.owner = None
        if tail.block is None:
            tail.block = block
            self._of_block[block] = tail

    def forget(self, block: int) -> None:
        """Nobody holds the block any more."""
        tail = self._of_block.pop(block, None)
        if tail is not None:
            tail.block = None
