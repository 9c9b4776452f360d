"""What the engine has done so far, in numbers for its host to export."""

from dataclasses import asdict, dataclass

from engine.scheduler import Scheduler
from engine.step_batch import StepBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """running, waiting and kv_blocks_used are now; the rest counts from the start.

    prefill_tokens_logical: prompt tokens of all requests that have run
    prefill_tokens_computed: those that were computed, and what was computed again after preemption
    cached_tokens: prompt tokens that a request found computed when it began to run
    first_tokens, first_token_seconds: requests that have one, and their waits for it, added up
    later_tokens, later_token_seconds: tokens after the first, of requests that have ended, and the
        time from their first tokens to their last, added up
    """

    running: int
    waiting: int
    kv_blocks_used: int
    kv_blocks_total: int
    prefill_tokens_computed: int
    prefill_tokens_logical: int
    cached_tokens: int
    output_tokens: int
    preemptions: int
    steps: int
    step_seconds: float
    first_tokens: int = 0
    first_token_seconds: float = 0.0
    later_tokens: int = 0
    later_token_seconds: float = 0.0


@dataclass(slots=True)
class Counters:
    """The numbers that only grow."""

    prefill_tokens_computed: int = 0
    prefill_tokens_logical: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    first_tokens: int = 0
    first_token_seconds: float = 0.0
    later_tokens: int = 0
    later_token_seconds: float = 0.0

    def count_scheduled(self, batch: StepBatch) -> None:
        """A step was put together, whether or not it can be computed."""
        self.preemptions += len(batch.preempted)
        for seq in batch.started:
            self.prefill_tokens_logical += seq.num_prompt_tokens
            self.cached_tokens += seq.num_cached_prompt_tokens or 0

    def count_first_token(self, *, seconds: float) -> None:
        self.first_tokens += 1
        self.first_token_seconds += seconds

    def count_later_tokens(self, tokens: int, *, seconds: float) -> None:
        self.later_tokens += tokens
        self.later_token_seconds += seconds

    def count_computed(self, batch: StepBatch, *, seconds: float) -> None:
        self.steps += 1
        self.step_seconds += seconds
        for chunk in batch.chunks:
            self.prefill_tokens_computed += chunk.num_tokens if chunk.is_prefill else 0
            self.output_tokens += chunk.samples

    def snapshot(self, scheduler: Scheduler) -> EngineStats:
        return EngineStats(
            running=scheduler.num_running,
            waiting=scheduler.num_waiting,
            kv_blocks_used=scheduler.num_blocks_held,
            kv_blocks_total=scheduler.num_blocks,
            **asdict(self),
        )
