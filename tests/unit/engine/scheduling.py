"""A scheduler on its own, and a stand-in for the model whose K and V can be checked.

The model is the function `next_token` of everything before; the K and V of a token are a hash of
all tokens up to it, kept in the cache slots that the scheduler assigned.  A chunk reads those of
everything before it, so any block shared, reused or freed wrongly shows at once.
"""

from collections import Counter
from hashlib import blake2b

from engine.block_pool import BlockPool
from engine.forecast import LengthForecast
from engine.prefix_tree import PrefixTree
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.sequence_blocks import SequenceBlocks
from engine.sliding_window import SlidingWindow
from engine.step_batch import Chunk, StepBatch

VOCAB_SIZE = 3  # small, so that random sequences often share blocks


def make_seq(
    seq_id: int, prompt: list[int], max_tokens: int = 4, *, salt: str = "", priority: int = 0
) -> Sequence:
    return Sequence(
        seq_id=seq_id,
        request_id=str(seq_id),
        token_ids=list(prompt),
        max_tokens=max_tokens,
        salt=salt,
        priority=priority,
    )


def kv_of(tokens: list[int], salt: str) -> bytes:
    return blake2b(bytes(tokens), key=salt.encode(), digest_size=8).digest()


def next_token(tokens: list[int], salt: str) -> int:
    return kv_of(tokens, salt)[0] % VOCAB_SIZE


def shape(batch: StepBatch) -> list[tuple[int, int]]:
    return [(chunk.seq.seq_id, chunk.num_tokens) for chunk in batch.chunks]


class OptimisticForecast(LengthForecast):
    """Expects everybody to be done at once, so that the pool runs dry."""

    def total_tokens(self, seq: Sequence) -> int:
        return len(seq.token_ids) + 1


class World:
    """A scheduler, and the cache that its chunks read and write."""

    def __init__(
        self,
        *,
        num_blocks: int = 8,
        block_size: int = 4,
        max_tokens: int = 16,
        max_seqs: int = 4,
        forecast: LengthForecast | None = None,
        window: int | None = None,
        **patience: int,
    ) -> None:
        self.window = window
        self.pool = BlockPool(num_blocks, block_size)
        self.tree = PrefixTree(block_size=block_size, model=b"model")
        sliding = SlidingWindow(window, max_tokens, block_size) if window else None
        self.scheduler = Scheduler(
            SequenceBlocks(self.pool, self.tree, sliding),
            forecast or LengthForecast(),
            max_num_batched_tokens=max_tokens,
            max_num_seqs=max_seqs,
            **patience,
        )
        self.max_tokens = max_tokens
        self.running: set[Sequence] = set()
        self.stops: dict[Sequence, int] = {}  # ends after so many tokens, before its limit
        self.prefill_tokens = 0
        self.copies = 0
        self.prompt_blocks = Counter[tuple[str, tuple[int, ...]]]()  # how often each was computed
        self._slots: dict[tuple[int, int], bytes] = {}

    def add(self, *seqs: Sequence) -> None:
        for seq in seqs:
            self.scheduler.add(seq)

    def expect(self, prefix: list[int], count: int) -> None:
        self.scheduler.expect(prefix, count)

    def abort(self, seq: Sequence) -> None:
        self.scheduler.abort(seq)
        self.running.discard(seq)

    def step(self) -> tuple[StepBatch, list[Sequence]]:
        """Compute one step; return it and the sequences that it finished."""
        batch = self.scheduler.step()
        assert sum(chunk.num_tokens for chunk in batch.chunks) <= self.max_tokens
        self._copy(batch.copies)
        for chunk in batch.chunks:
            self._write(chunk)
        for chunk in batch.chunks:
            self._read(chunk)
            self.prefill_tokens += chunk.num_tokens if chunk.is_prefill else 0
        self.running |= {chunk.seq for chunk in batch.chunks}
        self.running -= set(batch.preempted)
        self.check()
        sampled = [next_token(c.seq.token_ids, c.seq.salt) for c in batch.chunks if c.samples]
        grown = self.scheduler.record(batch, sampled)
        ended = [s for s in grown if s.num_output_tokens == self.stops.get(s, s.max_tokens)]
        self.scheduler.finish(ended)
        self.running -= set(ended)
        self.check()
        return batch, ended

    def run(self, max_steps: int = 2_000) -> list[StepBatch]:
        """Step until nothing is left."""
        batches = list[StepBatch]()
        for _ in range(max_steps):
            if not (self.scheduler.num_running or self.scheduler.num_waiting):
                return batches
            batch, _ = self.step()
            assert batch.chunks, "a step with work to do must make progress"
            batches.append(batch)
        raise AssertionError(f"not done after {max_steps} steps")

    def check(self) -> None:
        """Every block is held once for each block table that names it."""
        self.scheduler.check_integrity()
        holders = Counter(block for seq in self.running for block in seq.held_blocks)
        counts = {block: self.pool.references(block) for block in range(self.pool.num_blocks)}
        assert counts == {block: holders[block] for block in counts}

    def _copy(self, copies: list[tuple[int, int]]) -> None:
        self.copies += len(copies)
        size = self.pool.block_size
        blocks = {a: [self._slots.get((a, place)) for place in range(size)] for a, _ in copies}
        for source, target in copies:
            for place, found in enumerate(blocks[source]):
                if found is not None:
                    self._slots[target, place] = found

    def _write(self, chunk: Chunk) -> None:
        seq = chunk.seq
        for position in range(chunk.start, chunk.start + chunk.num_tokens):
            if position >= seq.num_reused_tokens:
                self._slots[self._slot(seq, position)] = kv_of(
                    seq.token_ids[: position + 1], seq.salt
                )
                self._count(seq, position)

    def _count(self, seq: Sequence, position: int) -> None:
        if position < seq.num_prompt_tokens and (position + 1) % self.pool.block_size == 0:
            self.prompt_blocks[seq.salt, tuple(seq.token_ids[: position + 1])] += 1

    def _read(self, chunk: Chunk) -> None:
        seq = chunk.seq
        first = max(0, chunk.start - self.window + 1) if self.window else 0
        for position in range(first, chunk.start + chunk.num_tokens):
            found = self._slots[self._slot(seq, position)]
            assert found == kv_of(seq.token_ids[: position + 1], seq.salt), "read another's K and V"

    def _slot(self, seq: Sequence, position: int) -> tuple[int, int]:
        size = self.pool.block_size
        return seq.block_table[position // size], position % size


def generate_alone(prompt: list[int], max_tokens: int, salt: str = "") -> list[int]:
    """What a sequence must end as, whatever it shared its steps with."""
    tokens = list(prompt)
    for _ in range(max_tokens):
        tokens.append(next_token(tokens, salt))
    return tokens


def teach_short_outputs(world: World) -> None:
    """Let the forecast see so many short completions that it expects no long ones."""
    for seq_id in range(40):
        seq = make_seq(seq_id, [0], 4)
        world.stops[seq] = 1
        world.add(seq)
        world.run()
