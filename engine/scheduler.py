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

from engine.forecast import LengthForecast
from engine.sequence import Sequence, State
from engine.sequence_blocks import SequenceBlocks
from engine.step_batch import StepBatch
from engine.waiting_queue import WaitingQueue


class Scheduler:
    def __init__(
        self,
        blocks: SequenceBlocks,
        forecast: LengthForecast,
        *,
        max_num_batched_tokens: int,
        max_num_seqs: int,
    ) -> None:
        if max_num_batched_tokens < max_num_seqs:
            raise ValueError("max_num_batched_tokens must not be less than max_num_seqs")
        self._blocks = blocks
        self._forecast = forecast
        self._max_num_batched_tokens = max_num_batched_tokens
        self._max_num_seqs = max_num_seqs
        self._waiting = WaitingQueue()
        self._running: list[Sequence] = []  # by `order`: the last is preempted first

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
        self._waiting.push(seq)

    def step(self) -> StepBatch:
        """Return the next step's work, with block tables grown to hold it."""
        batch = StepBatch(budget=self._max_num_batched_tokens)
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
        while needed > self._blocks.num_available:
            # Victims come after `seq`, so a chunk already in the step is never revoked.
            victim = self._running.pop()
            self._preempt(victim, batch)
            if victim is seq:
                return False
        return True

    def _admit_waiting(self, batch: StepBatch) -> None:
        spare = self._blocks.num_blocks - self._blocks.num_held - self._growth_of_running()
        # Bounded, so that a step costs the same however many wait for one prefix.
        for _ in range(self._max_num_seqs):
            seq = self._waiting.first()
            if seq is None or not batch.budget or len(self._running) == self._max_num_seqs:
                return
            if node := self._blocks.computed_elsewhere(seq):
                self._waiting.park_first(node)
                continue
            needed = self._blocks.missing(seq, self._forecast.total_tokens(seq))
            if needed > spare:
                return  # nobody overtakes
            spare -= needed
            self._start(self._waiting.pop(), batch)

    def _start(self, seq: Sequence, batch: StepBatch) -> None:
        self._blocks.reuse(seq)
        if seq.num_cached_prompt_tokens is None:
            seq.num_cached_prompt_tokens = seq.num_computed_tokens
            batch.started.append(seq)
        seq.state = State.RUNNING
        insort(self._running, seq, key=lambda running: running.order)
        self._schedule(seq, min(seq.num_owed_tokens, batch.budget), batch)

    def _schedule(self, seq: Sequence, num_tokens: int, batch: StepBatch) -> None:
        self._blocks.grow(seq, seq.num_computed_tokens + num_tokens)
        batch.add(seq, num_tokens)

    def _growth_of_running(self) -> int:
        """The blocks that the running sequences will probably still take."""
        missing, total_tokens = self._blocks.missing, self._forecast.total_tokens
        return sum(missing(seq, total_tokens(seq)) for seq in self._running)

    def _preempt(self, seq: Sequence, batch: StepBatch) -> None:
        """Give back a sequence's blocks; its tokens are kept and will be computed again."""
        self._waiting.wake(self._blocks.release(seq))
        self._waiting.push(seq)
        batch.preempted.append(seq)

    def _remove(self, ended: list[Sequence]) -> None:
        for seq in ended:
            seq.state = State.ENDED
            self._waiting.wake(self._blocks.release(seq))
            self._blocks.leave(seq)
        self._running = [seq for seq in self._running if seq.state is State.RUNNING]
