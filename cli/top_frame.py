"""What `gristmill top` shows of one look at a deployment.  Pure: an overview in, a frame out.

Its words for numbers, times and states are the dashboard's.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from rich import box
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from api.dashboard import wording
from jobs import ids
from jobs.models import JobKind, JobState, WorkerKind
from jobs.overview.views import BatchView, ModelQueue, Overview, WorkerView

_BAD = "bold red"
_MEDIUM, _WIDE = 100, 130  # columns of the terminal

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class _Column(Generic[RowT]):
    """`width`: of the narrowest terminal that has room for it."""

    title: str
    cell: Callable[[RowT], RenderableType]
    number: bool = True
    width: int = 0


def frame(overview: Overview, *, width: int) -> RenderableType:
    """All of it for a terminal so many columns wide."""
    queues = [queue for queue in overview.queues if queue.open or queue.workers]
    batches = [batch for batch in overview.batches if not batch.finished]
    served = {queue.model for queue in queues if queue.workers}
    return Group(
        _totals(overview),
        *(Text(notice, style=_BAD) for notice in _notices(overview, queues, len(batches))),
        _table(_QUEUE, queues, width, otherwise="Nothing waits and nobody serves."),
        _table(_WORKERS, overview.workers, width, otherwise="No worker is alive."),
        _table(_batch_columns(served), batches, width, otherwise="No batch is open."),
    )


def _totals(overview: Overview) -> Text:
    queues = overview.queues
    alive = {kind: len(overview.alive(kind)) for kind in WorkerKind}
    numbers = (
        f"{wording.count(sum(queue.waiting for queue in queues))} waiting",
        f"{wording.count(sum(queue.running for queue in queues))} running",
        f"{wording.rate(overview.tokens_per_second)} tokens/s",
        f"prefix hits {wording.percent(overview.prefix_hit_rate)}",
    )
    return Text.assemble(
        ("gristmill", "bold"),
        f"  {overview.at:%Y-%m-%d %H:%M:%S %Z}",
        f"  {alive[WorkerKind.INFERENCE]} inference, {alive[WorkerKind.CONTROL]} control\n",
        "  ".join(numbers),
    )


def _notices(overview: Overview, queues: Sequence[ModelQueue], open_batches: int) -> Iterator[str]:
    if open_batches and not overview.alive(WorkerKind.CONTROL):
        yield "No control process is alive: batches are neither planned nor finalized."
    for model in sorted({queue.model for queue in queues if queue.open and not queue.workers}):
        yield f"No worker serves {model}, and requests wait for it."
    if overview.webhooks:
        yield f"Targets of webhooks that fail: {len(overview.webhooks)}; the dashboard lists them."


def _table(
    columns: Sequence[_Column[RowT]], rows: Sequence[RowT], width: int, *, otherwise: str
) -> RenderableType:
    if not rows:
        return Text(f"\n{otherwise}", style="dim")
    shown = [column for column in columns if column.width <= width]
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold cyan"
    )
    for place, column in enumerate(shown):
        # Names in front are folded where there is no room; numbers are never cut.
        justify: Literal["left", "right"] = "right" if column.number else "left"
        table.add_column(column.title, justify=justify, no_wrap=place > 0, overflow="fold")
    for row in rows:
        table.add_row(*(column.cell(row) for column in shown))
    return Group("", table)


def _bad_if(wrong: bool, words: str) -> Text:
    # Never a plain string: a cell would read [brackets] in somebody's name as markup.
    return Text(words, style=_BAD if wrong else "")


def _text(words: str) -> Text:
    return Text(words)


_QUEUE: Sequence[_Column[ModelQueue]] = (
    _Column("Model", lambda queue: _text(queue.model), number=False),
    _Column("Priority", lambda queue: _text(queue.priority), number=False),
    _Column(
        "Waiting",
        lambda queue: _text(("" if queue.counted_all else "≥ ") + wording.count(queue.waiting)),
    ),
    _Column("Claimed", lambda queue: _text(wording.count(queue.claimed))),
    _Column("Running", lambda queue: _text(wording.count(queue.running))),
    _Column("Oldest", lambda queue: _text(wording.duration(queue.oldest_seconds))),
    _Column(
        "Workers",
        lambda queue: _bad_if(bool(queue.open) and not queue.workers, str(queue.workers)),
    ),
)


def _blocks(worker: WorkerView) -> str:
    if not worker.kv_blocks_total:
        return wording.UNKNOWN
    return wording.percent((worker.kv_blocks_used or 0) / worker.kv_blocks_total)


_WORKERS: Sequence[_Column[WorkerView]] = (
    _Column("Worker", lambda worker: _text(worker.model or worker.kind.value), number=False),
    _Column(
        "Host and pid",
        lambda worker: _text(f"{worker.host} {worker.pid}"),
        number=False,
        width=_MEDIUM,
    ),
    _Column(
        "State",
        lambda worker: _bad_if(not worker.alive, wording.worker_state(worker)),
        number=False,
    ),
    _Column("Beat", lambda worker: _text(wording.duration(worker.beat_age))),
    _Column("Running", lambda worker: _text(wording.count(worker.running))),
    _Column("Waiting", lambda worker: _text(wording.count(worker.waiting)), width=_WIDE),
    _Column("Tokens/s", lambda worker: _text(wording.rate(worker.output_tokens_per_second))),
    _Column(
        "Prompt/s",
        lambda worker: _text(wording.rate(worker.prompt_tokens_per_second)),
        width=_WIDE,
    ),
    _Column("Prefix hits", lambda worker: _text(wording.percent(worker.prefix_hit_rate))),
    _Column("KV", lambda worker: _text(_blocks(worker))),
    _Column("Up for", lambda worker: _text(wording.duration(worker.uptime)), width=_MEDIUM),
)


def _batch_columns(served: set[str]) -> Sequence[_Column[BatchView]]:
    def left(batch: BatchView) -> str:
        runs = batch.state is JobState.IN_PROGRESS and not batch.paused and batch.model in served
        return wording.duration(batch.eta_seconds if runs else None)

    return (
        _Column(
            "Batch",
            lambda batch: _text(ids.public(ids.JOB_PREFIX[JobKind.BATCH], batch.id)),
            number=False,
        ),
        _Column("Tenant", lambda batch: _text(batch.tenant), number=False, width=_WIDE),
        _Column(
            "State",
            lambda batch: _text(wording.batch_state(batch)),
            number=False,
        ),
        _Column("Progress", lambda batch: _bar(batch.progress), number=False, width=_MEDIUM),
        _Column("", lambda batch: _text(wording.percent(batch.progress))),
        _Column("Done", lambda batch: _text(wording.count(batch.ok + batch.failed)), width=_MEDIUM),
        _Column("Of", lambda batch: _text(wording.count(batch.total or None)), width=_MEDIUM),
        _Column(
            "Failed",
            lambda batch: _bad_if(bool(batch.failed), wording.count(batch.failed)),
            width=_WIDE,
        ),
        _Column("Rows/s", lambda batch: _text(wording.rate(batch.rows_per_second)), width=_WIDE),
        _Column("Left", lambda batch: _text(left(batch))),
    )


def _bar(progress: float) -> ProgressBar:
    return ProgressBar(total=1.0, completed=progress, width=12)
