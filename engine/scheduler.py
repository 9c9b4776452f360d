"""Chooses which tokens to compute next.

There is one rule and no phases.  A sequence owes the tokens whose K and V are not in the cache yet;
a step pays off as much of that debt as the token budget and the block pool allow.  A prefill is a
large debt, a decode is a debt of one, and a chunked prefill is a debt paid in instalments.

Integers only: no torch, no clock, no text, no I/O.  This file must never know why a sequence ended
or what its tokens say; its caller tells it.

The single rule is that of vLLM V1 (vllm/v1/core/sched/scheduler.py, `schedule`).
"""

from bisect import insort
from collections.abc import Iterable

from engine.depth_first import PATIENCE, DepthFirst
from engine.forecast import LengthForecast
from engine.sequence import Sequence, State
from engine.sequence_blocks import SequenceBlocks
from engine.step_batch import StepBatch
from engine.waiting_queue import WaitingQueue

RESERVE = 8  # after a preemption, one block in so many must be to spare before anybody is admitted


class Scheduler:
    """patience: see `depth_first`."""

    def __init__(
        self,
        blocks: SequenceBlocks,
        forecast: LengthForecast,
        *,
        max_num_batched_tokens: int,
        max_num_seqs: int,
        patience: int = PATIENCE,
    ) -> None:
        if max_num_batched_tokens < max_num_seqs:
            raise ValueError("max_num_batched_tokens must not be less than max_num_seqs")
        self._blocks = blocks
        self._forecast = forecast
        self._max_num_batched_tokens = max_num_batched_tokens
        self._max_num_seqs = max_num_seqs
        self._depth_first = DepthFirst(patience)
        self._waiting = WaitingQueue(forecast.remaining_tokens)
        self._running: list[Sequence] = []  # by `order`: the last is preempted first
        self._ran_dry = False  # and nobody was admitted since

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_blocks(self) -> int:
        return self._blocks.num_blocks

    @property
    def num_blocks_held(self) -> int:
        return self._blocks.num_held

    @property
    def room(self) -> int:
        """Tokens of KV not promised to any sequence yet; negative if more is promised than is."""
        blocks = self._blocks
        return (blocks.num_blocks - blocks.num_promised) * blocks.block_size

    def fits(self, seq: Sequence) -> bool:
        """Whether the sequence could run to its end with the whole pool to itself."""
        return self._blocks.fits_alone(seq.max_total_tokens)

    def add(self, seq: Sequence) -> None:
        assert self.fits(seq), "the caller refuses what can never run"
        self._blocks.enter(seq, expected_tokens=self._forecast.total_tokens(seq))
        seq.place = self._depth_first.arrive(seq.path)
        self._waiting.push(seq)

    def expect(self, tokens: list[int], count: int, *, salt: str = "", adapter: str = "") -> None:
        """`count` more sequences will be added that begin with `tokens`: keep what they share.

        Unless those who are here need the room.  Replaces what was said of these tokens before; a
        count of 0 takes it back.
        """
        self._blocks.expect(tokens, count, salt=salt, adapter=adapter)

    def step(self) -> StepBatch:
        """Return the next step's work, with block tables grown to hold it."""
        batch = StepBatch(budget=self._max_num_batched_tokens)
        self._waiting.put_longest_first(self._is_the_tail())
        self._continue_running(batch)
        if not batch.preempted:  # a dry pool must not admit more work
            self._admit_waiting(batch)
        return batch

    def record(self, batch: StepBatch, sampled: Iterable[int]) -> list[Sequence]:
        """Record a computed step.  Returns the sequences that have a new token.

        sampled: one token id per chunk with `samples` set, in the order of `batch.chunks`.
        """
        tokens = iter(sampled)
        grown = []
        for chunk in batch.chunks:
            self._waiting.wake(self._blocks.advance(chunk.seq, chunk.num_tokens))
            if chunk.samples:
                chunk.seq.token_ids.append(next(tokens))
                grown.append(chunk.seq)
        return grown

    def finish(self, ended: list[Sequence]) -> None:
        """The running sequences in `ended` need no more tokens."""
        for seq in ended:
            self._forecast.observe(seq)
        self._remove(ended)

    def shrink(self) -> bool:
        """Make every step from now on half as large.  False if it is as small as it can be.

        For when the memory of the last one could not be had: it was not recorded, so that what it
        was to compute is owed as before.
        """
        if self._max_num_batched_tokens == 1:
            return False
        self._max_num_batched_tokens //= 2
        self._max_num_seqs = min(self._max_num_seqs, self._max_num_batched_tokens)
        while len(self._running) > self._max_num_seqs:
            self._preempt(self._running.pop())
        return True

    def abort(self, seq: Sequence) -> None:
        """Drop a sequence, waiting or running, with all that it holds."""
        if seq.state is State.RUNNING:
            self._remove([seq])
        elif seq.state is not State.ENDED:
            self._waiting.drop(seq)
            self._blocks.leave(seq)

    def check_integrity(self) -> None:
        """Assert what must hold between any two calls.  For tests."""
        self._blocks.check_integrity()
        assert all(seq.state is State.RUNNING for seq in self._running)
        assert self._running == sorted(self._running, key=lambda seq: seq.order)

    def _continue_running(self, batch: StepBatch) -> None:
        index = 0
        while index < len(self._running):
            seq = self._running[index]
            # Those behind it get a token each: a long prefill does not stop anybody's decode.
            spare = batch.budget - (len(self._running) - index - 1)
            num_tokens = min(seq.num_owed_tokens, spare)
            if not self._make_room(seq, num_tokens, batch):
                return
            self._schedule(seq, num_tokens, batch)
            index += 1

    def _make_room(self, seq: Sequence, num_tokens: int, batch: StepBatch) -> bool:
        """Preempt until the tokens fit.  False if the sequence itself had to go."""
        needed = self._blocks.missing(seq, seq.num_computed_tokens + num_tokens)
        while needed and needed > self._blocks.num_available:
            # Victims come after `seq`, so a chunk already in the step is never revoked.
            victim = self._running.pop()
            self._preempt(victim)
            batch.preempted.append(victim)
            self._ran_dry = True
            if victim is seq:
                return False
        return True

    def _admit_waiting(self, batch: StepBatch) -> None:
        if not self._waiting or len(self._running) == self._max_num_seqs:
            return  # what runs need not be added up
        spare = self._blocks.num_blocks - self._blocks.num_held - self._growth_of_running()
        spare -= self._reserve()
        # Bounded, so that a step costs the same however many wait for one prefix.
        for _ in range(self._max_num_seqs):
            seq = self._waiting.first()
            if seq is None or not batch.budget or len(self._running) == self._max_num_seqs:
                return
            if node := self._blocks.computed_elsewhere(seq):
                self._waiting.park_first(node)
                continue
            if self.room < 0 and self._waiting.is_behind_parked(seq):
                return  # depth first, as long as not everything fits at once
            needed = self._blocks.growth(seq, self._forecast.total_tokens(seq))
            if needed > spare - self._kept_beside(seq):
                return  # nobody overtakes
            spare -= needed
            self._ran_dry = False
            self._start(self._waiting.pop(), batch)

    def _start(self, seq: Sequence, batch: StepBatch) -> None:
        self._blocks.reuse(seq)
        if seq.num_cached_prompt_tokens is None:
            seq.num_cached_prompt_tokens = seq.num_computed_tokens
            batch.started.append(seq)
            self._depth_first.start()
        seq.state = State.RUNNING
        insort(self._running, seq, key=lambda running: running.order)
        self._schedule(seq, min(seq.num_owed_tokens, batch.budget), batch)

    def _schedule(self, seq: Sequence, num_tokens: int, batch: StepBatch) -> None:
        batch.copies += self._blocks.grow(seq, seq.num_computed_tokens + num_tokens)
        batch.add(seq, num_tokens)

    def _is_the_tail(self) -> bool:
        """Whether the last are waiting, and all that they share fits at once, in any order."""
        return self.num_waiting <= self._max_num_seqs and self.room >= 0

    def _reserve(self) -> int:
        """Blocks that stay free when somebody is admitted.

        A forecast that was too low once may be again: admitting at the first chance would preempt
        at the next step, and compute the same tokens over and over.
        """
        if self._ran_dry and self._running:
            return max(1, self._blocks.num_blocks // RESERVE)
        return 0

    def _kept_beside(self, seq: Sequence) -> int:
        """The idle blocks that are not evicted for it, because others who wait will read them.

        With nobody running nothing else would ever make room, so that then all may go.
        """
        return self._blocks.num_wanted_beside(seq) if self._running else 0

    def _growth_of_running(self) -> int:
        """The blocks that the running sequences will probably still take."""
        growth, total_tokens = self._blocks.growth, self._forecast.total_tokens
        return sum(growth(seq, total_tokens(seq)) for seq in self._running)

    def _preempt(self, seq: Sequence) -> None:
        """Give back a sequence's blocks; its tokens are kept and will be computed again."""
        self._waiting.wake(self._blocks.release(seq))
        self._blocks.begin_again(seq)
        self._waiting.push(seq)

    def _remove(self, ended: list[Sequence]) -> None:
        for seq in ended:
            seq.state = State.ENDED
            self._waiting.wake(self._blocks.release(seq))
            self._blocks.leave(seq)
        self._running = [seq for seq in self._running if seq.state is State.RUNNING]
