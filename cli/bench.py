"""`gristmill bench`: how fast this machine runs the engine alone, and the whole system."""

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console

from bench.errors import BenchFailed
from cli.errors import CommandFailed
from engine.errors import EngineError

app = typer.Typer(
    help="Measure; figures are given only where the outputs are right.", no_args_is_help=True
)

Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON and nothing else.")]


@app.command()
def engine(
    *,
    model: Annotated[str, typer.Option(help="A folder, a .gguf file, or a bundled model's name.")],
    workload: Annotated[str, typer.Option(help="A file of requests as JSONL, or W1, W2 or W3.")],
    precision: Annotated[str, typer.Option(help="auto, fp32, bf16, fp16 or int8.")] = "auto",
    check: Annotated[
        int, typer.Option(min=0, help="How many answers to compare with transformers'; 0: all.")
    ] = 6,
    ceiling: Annotated[bool, typer.Option(help="Measure the machine, and give the floor.")] = True,
    as_json: Json = False,
) -> None:
    """Run the engine alone on a workload, and check what it says."""
    # Here, for torch is slow to import beside every other command.
    from bench.engine import Options, bench_engine

    options = Options(precision=precision, check=check or None, ceiling=ceiling)
    _report(lambda tell: bench_engine(model, workload, options, tell=tell), as_json=as_json)


@app.command()
def peer(
    command: Annotated[
        list[str], typer.Argument(help="How to run the peer, after --; see bench/peers/README.md.")
    ],
    *,
    model: Annotated[str, typer.Option(help="Ours: as for `bench engine`.")],
    workload: Annotated[str, typer.Option(help="A file of requests as JSONL, or W1, W2 or W3.")],
    precision: Annotated[str, typer.Option(help="Ours: fp32 or int8.")] = "fp32",
    rounds: Annotated[int, typer.Option(min=1, help="How often each runs; its best counts.")] = 3,
    as_json: Json = False,
) -> None:
    """Run the engine and another one by turns on a workload, against the same floor."""
    from bench.side_by_side import Contest, side_by_side

    contest = Contest(
        model=model, workload=workload, precision=precision, rounds=rounds, peer=command
    )
    _report(lambda tell: side_by_side(contest, tell=tell), as_json=as_json)


@app.command()
def queue(
    *,
    requests: Annotated[int, typer.Option(min=1, help="Lines of the batch.")],
    bad: Annotated[int, typer.Option(min=0, help="Lines of them that are to be skipped.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Inference workers.")] = 1,
    as_json: Json = False,
) -> None:
    """Run a batch through a whole stack with an echo engine, and check every line of it."""
    from bench.queue import Load, bench_queue

    if bad >= requests:
        raise typer.BadParameter("one line at least must be good", param_hint="--bad")
    load = Load(requests, bad)
    _report(lambda tell: bench_queue(load, workers=workers, tell=tell), as_json=as_json)


@app.command()
def system(
    *,
    model: Annotated[str, typer.Option(help="A folder, a .gguf file, or a bundled model's name.")],
    workload: Annotated[str, typer.Option(help="A file of requests as JSONL, or W1, W2 or W3.")],
    rounds: Annotated[int, typer.Option(min=1, help="How often each runs; its best counts.")] = 3,
    as_json: Json = False,
) -> None:
    """Run a workload as a batch through a whole stack, and by the engine alone, by turns."""
    from bench.system import bench_system

    _report(lambda tell: bench_system(model, workload, rounds=rounds, tell=tell), as_json=as_json)


@app.command()
def claims(
    *,
    queued: Annotated[int, typer.Option(min=1, help="Shards in the queue.")] = 1_000_000,
    settled: Annotated[
        int, typer.Option(min=1, help="Shards settled beside an old snapshot.")
    ] = 30_000,
    as_json: Json = False,
) -> None:
    """Claim from a long queue while an old snapshot keeps every dead row version."""
    from bench.claims import bench_claims

    _report(lambda tell: bench_claims(queued, settled, tell=tell), as_json=as_json)


def _report(measure: Callable[[Callable[[str], None]], dict[str, Any]], *, as_json: bool) -> None:
    console = Console(stderr=True)
    try:
        with console.status("Starting …") as status:
            figures = measure(lambda doing: status.update(f"{doing} …"))
    except (BenchFailed, EngineError) as error:
        raise CommandFailed(f"no figures: {error}") from error
    if as_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:28} {value if isinstance(value, str) else json.dumps(value)}")
