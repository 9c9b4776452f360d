"""The blocks of sequences: takes them from the pool, finds them in the tree, gives them back.

Everything that must happen to the pool and the tree together happens here, so that the scheduler
can speak of sequences and nobody else has to keep the two in step.
"""

from bisect import bisect

from engine.block_pool import BlockPool
from engine.expectations import Expectations
from engine.prefix_tree import Node, PrefixTree
from engine.prompt_tails import PromptTails
from engine.sequence import Sequence
from engine.sliding_window import SlidingWindow

# What a table names where a block was dropped: any that exists, for it is not read.
DROPPED = 0


class SequenceBlocks:
    """window: None if any layer sees everything."""

    def __init__(
        self, pool: BlockPool, tree: PrefixTree, window: SlidingWindow | None = None
    ) -> None:
        self._pool = pool
        self._tree = tree
        self._window = window
        self._expectations = Expectations(tree)
        self._tails = PromptTails()
        self._promised = 0  # the sum of `promised_blocks` over all sequences that have entered

    @property
    def num_blocks(self) -> int:
        return self._pool.num_blocks

    @property
    def block_size(self) -> int:
        return self._pool.block_size

    @property
    def num_held(self) -> int:
        return self._pool.num_held

    @property
    def num_available(self) -> int:
        """Blocks that can be had at once; the idle ones are evicted for it."""
        return self._pool.num_free + self._tree.num_idle

    @property
    def num_promised(self) -> int:
        """Blocks that all sequences together will need, waiting ones included, sharing counted."""
        return self._tree.num_live + self._promised

    def fits_alone(self, num_tokens: int) -> bool:
        return self._pool.blocks_for(num_tokens) <= self._pool.num_blocks

    def enter(self, seq: Sequence, *, expected_tokens: int) -> None:
        """Place a new sequence in the tree and promise it the blocks that it will need."""
        seq.path = self._tree.enter(seq.token_ids, salt=seq.salt, adapter=seq.adapter)
        self._expectations.arrive(seq.path)
        parent = self._tree.key_of(seq.path, salt=seq.salt, adapter=seq.adapter)
        seq.tail = self._tails.enter(parent, seq.token_ids[len(seq.path) * self.block_size :])
        self._promise(seq, self._pool.blocks_for(expected_tokens) - len(seq.path))

    def expect(self, tokens: list[int], count: int, *, salt: str, adapter: str) -> None:
        """Rather keep the full blocks of `tokens`: `count` more sequences will begin with them."""
        path = self._tree.enter(tokens, salt=salt, adapter=adapter)
        self._expectations.expect(path, count)
        self._tree.leave(path)

    def leave(self, seq: Sequence) -> None:
        """Take a sequence that holds no blocks out of the tree."""
        self._tree.leave(seq.path[seq.num_dropped_blocks :])
        seq.path = []
        seq.num_dropped_blocks = 0
        if seq.tail is not None:
            self._tails.leave(seq.tail)
            seq.tail = None
        self._promise(seq, 0)

    def computed_elsewhere(self, seq: Sequence) -> Node | None:
        """The last node that another sequence is computing right now and this one would need next.

        Computing it twice would be waste: wait for it.
        """
        found = None
        for node in seq.path[self._resident(seq)[1] :]:
            if node.owner is None:
                return found
            found = node
        tail = self._tail_to_share(seq)
        return tail if tail is not None and tail.owner is not None else found

    def missing(self, seq: Sequence, num_tokens: int) -> int:
        """Blocks to take from the available ones before `num_tokens` tokens of it are held."""
        blocks = self._pool.blocks_for(num_tokens)
        if seq.block_table:
            return max(0, blocks - len(seq.block_table) + self._parts_from_tail(seq, num_tokens))
        first, end = self._resident(seq)
        return max(0, blocks - first - self._count_held(seq.path[first:end]))

    def growth(self, seq: Sequence, num_tokens: int) -> int:
        """Blocks that it will have taken by then, less those that it will have given back.

        What somebody else will still read counts as kept, for it will not be free.
        """
        missing = self.missing(seq, num_tokens)
        if self._window is None or not missing:
            return missing
        most = self._window.most_blocks(seq.num_owed_tokens)
        alone_from = max(seq.num_dropped_blocks, self._num_shared(seq.path))
        if seq.block_table:
            return min(missing, max(0, most - len(seq.block_table) + alone_from))
        return max(0, missing - max(0, self._pool.blocks_for(num_tokens) - alone_from - most))

    def num_wanted_beside(self, seq: Sequence) -> int:
        """Available blocks, none of this waiting sequence's, that others who wait will read."""
        first, end = self._resident(seq)
        idle = end - first - self._count_held(seq.path[first:end])
        return self._tree.num_wanted - idle

    def reuse(self, seq: Sequence) -> None:
        """Give a starting sequence the blocks of its resident prefix, and the rest to compute."""
        first, end = self._resident(seq)
        blocks = self._tree.revive(seq.path[first:end])
        for block in blocks:
            self._pool.retain(block)
        seq.block_table = [DROPPED] * first + blocks
        self._leave_nodes(seq, first)
        seq.num_reused_tokens = end * self._pool.block_size
        self._reuse_tail(seq)
        # The last token is computed even if its K and V are there: its logits are what we want.
        seq.num_computed_tokens = min(seq.num_reused_tokens, len(seq.token_ids) - 1)
        for node in seq.path[end:]:
            if node.block is None and node.owner is None:
                node.owner = seq.seq_id

    def grow(self, seq: Sequence, num_tokens: int) -> list[tuple[int, int]]:
        """Extend the block table to hold `num_tokens` tokens.  So many must be available.

        Returns the (from, to) of blocks that must be copied before anything is written.
        """
        missing = self.missing(seq, num_tokens)
        if not missing:
            return []
        while self._pool.num_free < missing:
            self._evict()
        copies = self._part_from_tail(seq) if self._parts_from_tail(seq, num_tokens) else []
        more = self._pool.blocks_for(num_tokens) - len(seq.block_table)
        seq.block_table += self._pool.take(more) if more > 0 else []
        return copies

    def advance(self, seq: Sequence, num_tokens: int) -> list[Node]:
        """`num_tokens` more are computed.  Returns the nodes that others can read from now on."""
        size = self._pool.block_size
        first = seq.num_computed_tokens // size
        seq.num_computed_tokens += num_tokens
        last = seq.num_computed_tokens // size
        if last > len(seq.path):
            self._extend_path(seq)
        filled = seq.path[first:last]
        for index, node in enumerate(filled, start=first):
            twin = self._tree.fill(node, seq.block_table[index])
            if twin is not None:
                self._pool.free(twin)
        if seq.tail is not None and seq.tail.owner == seq.seq_id and seq.has_computed_its_prompt:
            self._tails.fill(seq.tail, seq.block_table[seq.num_prompt_tokens // size])
            filled.append(seq.tail)
        self._drop(seq)
        return filled

    def release(self, seq: Sequence) -> list[Node]:
        """Give back all blocks.  Returns the nodes that it was to compute and now will not."""
        for block in reversed(seq.held_blocks):
            self._release(block)
        seq.block_table = []
        seq.shares_tail = False
        seq.num_computed_tokens = seq.num_reused_tokens = 0
        nodes = seq.path if seq.tail is None else [*seq.path, seq.tail]
        abandoned = [node for node in nodes if node.owner == seq.seq_id]
        for node in abandoned:
            node.owner = None
        return abandoned

    def begin_again(self, seq: Sequence) -> None:
        """A sequence that gave its blocks back will need its whole path again."""
        if seq.num_dropped_blocks:
            self._tree.leave(seq.path[seq.num_dropped_blocks :])
            covered = seq.token_ids[: len(seq.path) * self.block_size]
            seq.path = self._tree.enter(covered, salt=seq.salt, adapter=seq.adapter)
            seq.num_dropped_blocks = 0
            self._promise(seq, seq.private_blocks)

    def check_integrity(self) -> None:
        self._pool.check_integrity(self._tree.idle_blocks)

    def _resident(self, seq: Sequence) -> tuple[int, int]:
        """(first, end): the blocks of a waiting sequence's path that it will not have to compute.

        Those before `first`, if any, it will never read.
        """
        if self._window is None:
            return 0, self._tree.num_resident(seq.path)
        return self._window.resident(seq.path, len(seq.token_ids))

    def _count_held(self, nodes: list[Node]) -> int:
        blocks = (node.block for node in nodes if node.block is not None)
        return sum(self._pool.references(block) > 0 for block in blocks)

    def _num_shared(self, path: list[Node]) -> int:
        """Of how many nodes from its start the sequence is not the only user."""
        return bisect(path, -2, key=lambda node: -node.users)

    def _drop(self, seq: Sequence) -> None:
        """Give back what lies before the window of the token that it will compute next."""
        if self._window is None:
            return
        before, first = seq.num_dropped_blocks, self._window.first_needed(seq.num_computed_tokens)
        if first <= before:
            return
        self._leave_nodes(seq, first)
        for index in range(before, first):
            self._release(seq.block_table[index])
            seq.block_table[index] = DROPPED

    def _leave_nodes(self, seq: Sequence, end: int) -> None:
        """It is no user any more of its first nodes, up to `end`."""
        self._tree.leave(seq.path[seq.num_dropped_blocks : end])
        seq.num_dropped_blocks = end
        self._promise(seq, seq.private_blocks)

    def _evict(self) -> None:
        block, node = self._tree.evict()
        self._expectations.forget(node)
        self._pool.free(block)

    def _release(self, block: int) -> None:
        if self._pool.release(block):
            self._tails.forget(block)
            if not self._tree.retire(block):
                self._pool.free(block)

    def _tail_to_share(self, seq: Sequence) -> Node | None:
        """The tail of a waiting sequence, unless its path goes beyond its prompt already."""
        covered = len(seq.path) * self.block_size
        return seq.tail if covered < seq.num_prompt_tokens else None

    def _reuse_tail(self, seq: Sequence) -> None:
        """Share the prompt's last block with whoever computed it, or be the one who does."""
        tail = self._tail_to_share(seq)
        if tail is None:
            return
        if tail.block is not None and len(seq.block_table) == len(seq.path):
            self._pool.retain(tail.block)
            seq.block_table.append(tail.block)
            seq.shares_tail = True
            seq.num_reused_tokens = seq.num_prompt_tokens
        elif tail.block is None and tail.owner is None:
            tail.owner = seq.seq_id

    def _parts_from_tail(self, seq: Sequence, num_tokens: int) -> bool:
        """Whether to hold so many tokens it must write to a block that it shares."""
        return seq.shares_tail and num_tokens > seq.num_prompt_tokens

    def _part_from_tail(self, seq: Sequence) -> list[tuple[int, int]]:
        """Give it a block of its own for its prompt's end: a copy, unless nobody else is left.

        Whoever computed the block may have filled it: then its node names what lies behind the
        prompt's end too, and it must stay.
        """
        seq.shares_tail = False
        place = seq.num_prompt_tokens // self.block_size
        shared = seq.block_table[place]
        if self._pool.references(shared) == 1 and not self._tree.names(shared):
            return []
        [seq.block_table[place]] = self._pool.take(1)
        self._release(shared)
        return [(shared, seq.block_table[place])]

    def _extend_path(self, seq: Sequence) -> None:
        covered = len(seq.path)
        computed = seq.token_ids[: seq.num_computed_tokens]
        self._tree.extend(seq.path, computed, salt=seq.salt, adapter=seq.adapter)
        self._promise(seq, seq.private_blocks - (len(seq.path) - covered))

    def _promise(self, seq: Sequence, private_blocks: int) -> None:
        """private_blocks: that it will probably need beyond its path, one after the other"""
        seq.private_blocks = promised = max(0, private_blocks)
        if self._window is not None:
            most = self._window.most_blocks(seq.num_owed_tokens)
            promised = min(promised, max(0, most - len(seq.path) + seq.num_dropped_blocks))
        self._promised += promised - seq.promised_blocks
        seq.promised_blocks = promised
