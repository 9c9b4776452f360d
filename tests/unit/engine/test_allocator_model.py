"""Pool, tree and tails against an oracle that counts everything afresh.

Sequences come, run, grow, are preempted, end and are aborted in any order; after each of it the
oracle says who holds each block, who needs each prefix, and what each shared block must contain.
"""

from collections import Counter
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.block_pool import BlockPool
from engine.prefix_tree import PrefixTree
from engine.sequence_blocks import SequenceBlocks
from engine.sliding_window import SlidingWindow
from tests.unit.engine.scheduling import make_seq

SIZE = 3
NUM_BLOCKS = 20
PROMPTS = [[0] * 5, [0] * 5, [0] * 8, [0, 0, 0, 1, 1, 1, 1, 1], [2] * 7]


class Allocator(RuleBasedStateMachine):
    window: int | None = None

    def __init__(self):
        super().__init__()
        self.pool = BlockPool(NUM_BLOCKS, SIZE)
        self.tree = PrefixTree(block_size=SIZE, model=b"model")
        sliding = (
            SlidingWindow(self.window, max_at_once=8, block_size=SIZE) if self.window else None
        )
        self.blocks = SequenceBlocks(self.pool, self.tree, sliding)
        self.seq_ids = count()
        self.waiting = []
        self.running = []
        self.contents = {}  # (block, place): the tokens up to and with the one that lies there

    @rule(
        prompt=st.sampled_from(PROMPTS),
        salt=st.sampled_from(["", "", "tenant"]),
        count=st.integers(1, 3),
        at_once=st.booleans(),
    )
    def come(self, prompt, salt, count, at_once):
        for _ in range(count):
            seq = make_seq(next(self.seq_ids), prompt, salt=salt)
            self.blocks.enter(seq, expected_tokens=len(prompt) + 2)
            self.waiting.append(seq)
        if at_once:
            self.start(most=count)
            self.compute(tokens=[1, 0, 1, 0, 1, 0], backwards=False)

    @rule(prompt=st.sampled_from(PROMPTS), count=st.integers(0, 2))
    def expect(self, prompt, count):
        self.blocks.expect(prompt, count, salt="", adapter="")

    @precondition(lambda self: self.waiting)
    @rule(most=st.integers(1, 4))
    def start(self, most):
        for seq in self.waiting[-most:]:
            if self.blocks.missing(seq, len(seq.token_ids)) <= self.blocks.num_available:
                self.waiting.remove(seq)
                self.blocks.reuse(seq)
                self.running.append(seq)
                self._grow(seq, len(seq.token_ids))

    @precondition(lambda self: self.running)
    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=4), backwards=st.booleans())
    def compute(self, tokens, backwards):
        """Each running sequence gets a token, or computes all but the last of what it owes."""
        order = list(enumerate(self.running))
        for place, seq in reversed(order) if backwards else order:
            if place < len(tokens):
                self._compute(seq, len(seq.token_ids))
                seq.token_ids.append(tokens[place])
                self._compute(seq, len(seq.token_ids))
            elif seq.num_owed_tokens > 1:
                self._compute(seq, len(seq.token_ids) - 1)

    def _compute(self, seq, goal):
        if self.blocks.missing(seq, goal) > self.blocks.num_available:
            return
        self._grow(seq, goal)
        for position in range(seq.num_computed_tokens, goal):
            if position >= seq.num_reused_tokens:
                self.contents[self._slot(seq, position)] = self._tokens(seq, position)
        self.blocks.advance(seq, goal - seq.num_computed_tokens)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), ends=st.booleans())
    def stop(self, data, ends):
        seq = data.draw(st.sampled_from(self.running))
        self.running.remove(seq)
        self.blocks.release(seq)
        if ends:
            self.blocks.leave(seq)
        else:
            self.blocks.begin_again(seq)
            self.waiting.append(seq)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def abort_waiting(self, data):
        seq = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(seq)
        self.blocks.leave(seq)

    @invariant()
    def no_block_leaks_or_is_freed_twice(self):
        self.blocks.check_integrity()

    @invariant()
    def every_block_is_held_once_for_each_table_that_names_it(self):
        holders = Counter(block for seq in self.running for block in seq.held_blocks)
        assert [self.pool.references(block) for block in range(NUM_BLOCKS)] == [
            holders[block] for block in range(NUM_BLOCKS)
        ]

    @invariant()
    def every_prefix_is_needed_by_those_who_begin_with_it(self):
        users = Counter(
            (seq.salt, tuple(seq.token_ids[: (depth + 1) * SIZE]))
            for seq in self.waiting + self.running
            for depth in range(seq.num_dropped_blocks, len(seq.path))
        )
        assert self.tree.num_live == len(users)
        for seq in self.waiting + self.running:
            for depth in range(seq.num_dropped_blocks, len(seq.path)):
                node = seq.path[depth]
                assert node.users == users[seq.salt, tuple(seq.token_ids[: (depth + 1) * SIZE])]

    @invariant()
    def what_is_computed_is_still_there(self):
        for seq in self.running:
            seen = seq.num_computed_tokens if self.window is None else self.window - 1
            first = max(0, seq.num_computed_tokens - seen)
            assert seq.num_dropped_blocks <= first // SIZE
            for position in range(first, seq.num_computed_tokens):
                found = self.contents[self._slot(seq, position)]
                assert found == self._tokens(seq, position)

    @invariant()
    def nothing_is_promised_when_nobody_is_left(self):
        if not self.waiting and not self.running:
            assert self.blocks.num_promised == 0
            assert self.pool.num_held == 0

    def _grow(self, seq, num_tokens):
        for source, target in self.blocks.grow(seq, num_tokens):
            for place in range(SIZE):
                if (source, place) in self.contents:
                    self.contents[target, place] = self.contents[source, place]

    def _slot(self, seq, position):
        return seq.block_table[position // SIZE], position % SIZE

    def _tokens(self, seq, position):
        return seq.salt, tuple(seq.token_ids[: position + 1])


class WindowedAllocator(Allocator):
    """As if every layer of the model saw the last five tokens alone."""

    window = 5


WindowedAllocator.TestCase.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None
)
test_with_a_window_too = WindowedAllocator.TestCase
Allocator.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
test_the_allocator_agrees_with_its_oracle = Allocator.TestCase
