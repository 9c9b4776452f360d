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

    def count(self, batch: StepBatch, *, seconds: float) -> None:
        self.steps += 1
        self.step_seconds += seconds
        self.preemptions += len(batch.preempted)
        for seq in batch.started:
            self.prefill_tokens_logical += seq.num_prompt_tokens
            self.cached_tokens += seq.num_cached_prompt_tokens or 0
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
