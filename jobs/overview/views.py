"""What is seen.  Frozen values: they may be shared by everybody who looks."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobs.models import TERMINAL_STATES, JobState, WorkerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQueue:
    """The requests of one model and one priority, each counted in exactly one of three places.

    waiting: in shards that nobody holds.  A shard that was rescued counts whole again.
    claimed: held by a worker, not finished, and not in its engine's batch.
    running: in the engine's batch, as the workers' last beats say.
    oldest_seconds: how long the longest-waiting shard could have been claimed.
    """

    model: str
    interactive: bool
    waiting: int = 0
    claimed: int = 0
    running: int = 0
    counted_all: bool = True  # False: `waiting` is a lower bound
    oldest_seconds: float | None = None
    leases: int = 0
    workers: int = 0  # alive ones of this model

    @property
    def priority(self) -> str:
        return "interactive" if self.interactive else "bulk"

    @property
    def open(self) -> int:
        return self.waiting + self.claimed + self.running


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One process.  The numbers of its engine are those of its last beat; None: it sent none."""

    incarnation: UUID
    kind: WorkerKind
    model: str | None
    host: str
    pid: int
    alive: bool
    draining: bool
    beat_age: float  # seconds
    uptime: float  # seconds
    steps: int
    running: int | None
    waiting: int | None
    kv_blocks_used: int | None
    kv_blocks_total: int | None
    output_tokens_per_second: float | None
    prompt_tokens_per_second: float | None
    prefix_hit_rate: float | None  # over the last beat
    cached_tokens: int | None  # since its start, as is the next
    prefill_tokens_logical: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """`fault`: of a failed one, the first that is wrong with its file, and in which line.
    `rows_per_second`: how many it got in the last minute; 0 once it has ended.
    """

    id: UUID
    tenant: str
    state: JobState
    model: str | None
    interactive: bool
    created_at: datetime
    elapsed: float  # seconds from its creation to its end, or to now
    paused: bool
    rows_per_second: float
    total: int
    ok: int
    failed: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    fault: str | None
    fault_line: int | None

    @property
    def finished(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def progress(self) -> float:
        return min(1.0, (self.ok + self.failed) / self.total) if self.total else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """To its last row, if it goes on as in the last minute; None: there is nothing to go by."""
        if not self.rows_per_second:
            return None
        return (self.total - self.ok - self.failed) / self.rows_per_second

    @property
    def prefix_hit_rate(self) -> float | None:
        return self.cached_tokens / self.input_tokens if self.input_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookView:
    """A target of webhooks that fails; `endpoint` is None where it is a host of jobs' own URLs."""

    tenant: str
    endpoint: str | None
    host: str
    failures: int  # since its last success
    failing_for: float | None  # seconds
    resting: bool
    disabled_reason: str | None

    @property
    def state(self) -> str:
        if self.disabled_reason is not None:
            return "disabled"
        return "resting" if self.resting else "failing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlView:
    """What control processes have before them: for how long the batch that waits longest has waited
    to be planned, or to be finalized once it was begun.  Seconds; 0 where none does."""

    planning: float
    finalizing: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    at: datetime
    control: ControlView
    queues: tuple[ModelQueue, ...]
    workers: tuple[WorkerView, ...]
    batches: tuple[BatchView, ...]
    webhooks: tuple[WebhookView, ...] = ()

    def alive(self, kind: WorkerKind) -> list[WorkerView]:
        return [worker for worker in self.workers if worker.alive and worker.kind is kind]

    @property
    def tokens_per_second(self) -> float:
        engines = self.alive(WorkerKind.INFERENCE)
        return sum(engine.output_tokens_per_second or 0.0 for engine in engines)

    @property
    def prefix_hit_rate(self) -> float | None:
        """The share of prompt tokens found in cache since the live workers started."""
        engines = self.alive(WorkerKind.INFERENCE)
        asked = sum(engine.prefill_tokens_logical or 0 for engine in engines)
        return sum(engine.cached_tokens or 0 for engine in engines) / asked if asked else None
