"""Hands out the ids of KV-cache blocks and counts who holds them.

Integers only.  This file must never know tensors, sequences or prefixes, nor which unreferenced
block deserves to stay: that is the prefix tree's business.

A block is in one of three states:
    free   in the free list; what it holds is worthless
    held   referenced by at least one block table
    idle   referenced by nobody, kept by the caller because what it holds may be used again
"""


class BlockPool:
    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._references = [0] * num_blocks
        self._free = list(range(num_blocks - 1, -1, -1))
        self._num_held = 0

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_held(self) -> int:
        return self._num_held

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def references(self, block: int) -> int:
        """How often the block is held."""
        return self._references[block]

    def take(self, num_blocks: int) -> list[int]:
        """Return `num_blocks` free blocks, each held once.  There must be that many."""
        assert num_blocks <= len(self._free), "the caller frees idle blocks first"
        taken = [self._free.pop() for _ in range(num_blocks)]
        for block in taken:
            self._references[block] = 1
        self._num_held += num_blocks
        return taken

    def retain(self, block: int) -> None:
        """Hold a block once more; an idle block becomes a held one."""
        self._num_held += self._references[block] == 0
        self._references[block] += 1

    def release(self, block: int) -> bool:
        """Give back one hold.  True if it was the last: the block is idle now."""
        assert self._references[block] > 0, f"block {block} was released twice"
        self._references[block] -= 1
        if self._references[block]:
            return False
        self._num_held -= 1
        return True

    def free(self, block: int) -> None:
        """Return an idle block to the free list."""
        assert self._references[block] == 0, f"block {block} is still held"
        self._free.append(block)

    def check_integrity(self, idle: set[int]) -> None:
        """Assert that every block is in exactly one state.  `idle`: the blocks the caller keeps."""
        free = set(self._free)
        held = {block for block, count in enumerate(self._references) if count}
        assert len(free) == len(self._free), "a block is in the free list twice"
        assert len(held) == self._num_held
        assert len(free | held | idle) == len(free) + len(held) + len(idle), "in two states"
        assert len(free) + len(held) + len(idle) == self.num_blocks, "a block has leaked"
