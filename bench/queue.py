"""The whole system without a model: `gristmill bench queue`.

A stack of its own with an echo engine takes a batch of so many lines, then single jobs.  Figures
are given only if every line came back, once, in order and with its answer.
"""

import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
from rich.console import Console

from bench.batch_file import ENDPOINT, batch_lines, check_output
from bench.batch_watch import Story, follow
from bench.errors import OutputIncomplete, StackFailed
from bench.memory import MemoryWatch, Roles, cpu_seconds, roles_of
from bench.quantiles import milliseconds
from bench.single_jobs import single_jobs
from bench.stack_client import client_of, create_batch, download, served_model, upload
from bench.stopwatch import Stopwatch
from cli.own_stack import own_stack

_SINGLE_JOBS = 50


class Load(NamedTuple):
    """Lines of the batch, and how many of them are bad, to be skipped."""

    requests: int
    bad: int = 0


def bench_queue(load: Load, *, workers: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure, check, and return the figures.  Raises BenchFailed or CommandFailed.

    tell: is told what is being done
    """
    tell("starting a stack")
    arguments = ["--engine", "echo", "--workers", str(workers)]
    with own_stack(Console(quiet=True), arguments) as facts, client_of(facts) as client:
        try:
            figures = _measure(client, roles_of(facts.pids), load, tell=tell)
        except httpx.HTTPError as error:
            raise StackFailed(f"the API at {facts.api_url} failed: {error}") from error
    return {"bench": "queue", **load._asdict(), "workers": workers, **figures}


def _measure(
    client: httpx.Client, roles: Roles, load: Load, *, tell: Callable[[str], None]
) -> dict[str, Any]:
    model = served_model(client)
    with MemoryWatch(roles) as memory:
        tell("uploading")
        file_id, upload_s = _upload(client, load, model=model)
        before = cpu_seconds(roles)
        with Stopwatch(ours=lambda: _our_cpu_seconds(roles)) as watch:
            batch, story = follow(
                client, create_batch(client, file_id, endpoint=ENDPOINT), tell=tell
            )
        used = {role: cpu - before[role] for role, cpu in cpu_seconds(roles).items()}
        tell("downloading and checking")
        download_s = _download_and_check(client, batch, load)
    tell("single jobs")
    singles = single_jobs(client, model=model, count=_SINGLE_JOBS)
    return {
        **_rates(load.requests, story),
        "upload_s": round(upload_s, 2),
        "download_s": round(download_s, 2),
        "cpu_s": {role: round(seconds, 1) for role, seconds in used.items()},
        "others_cpu_s": round(watch.others_cpu_s, 1),
        "peak_rss_mib": memory.peak_mib(),
        "get_batch": milliseconds(story.reads),
        "list_batches": milliseconds(story.lists),
        "single_job_accepted": milliseconds([job.accepted for job in singles]),
        "single_job": milliseconds([job.done for job in singles]),
    }


def _upload(client: httpx.Client, load: Load, *, model: str) -> tuple[str, float]:
    with tempfile.TemporaryFile(prefix="gristmill-bench-") as file:
        file.writelines(batch_lines(load.requests, model=model, bad=load.bad))
        file.seek(0)
        started = time.perf_counter()
        return upload(client, file), time.perf_counter() - started


def _download_and_check(client: httpx.Client, batch: dict[str, Any], load: Load) -> float:
    """Raises OutputIncomplete.  Returns the seconds of the download alone."""
    counts, good = batch["request_counts"], load.requests - load.bad
    if counts != {"total": load.requests, "completed": good, "failed": load.bad}:
        raise OutputIncomplete(f"the batch's counts are {counts}")
    with tempfile.TemporaryFile(prefix="gristmill-bench-") as file:
        started = time.perf_counter()
        download(client, batch, file)
        elapsed = time.perf_counter() - started
        file.seek(0)
        check_output(file, count=load.requests, bad=load.bad)
    return elapsed


def _our_cpu_seconds(roles: Roles) -> float:
    return time.process_time() + sum(cpu_seconds(roles).values())


def _rates(requests: int, story: Story) -> dict[str, Any]:
    phases = story.phases()
    rates = {
        f"{phase}_lines_s": round(requests / seconds) if seconds else None
        for phase, seconds in phases.items()
    }
    return {
        "phase_s": {phase: round(seconds, 2) for phase, seconds in phases.items()},
        **rates,
        "end_to_end_lines_s": round(requests / sum(phases.values())),
    }
