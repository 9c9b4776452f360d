"""python -m bench.gpu: check, then measure, one line of JSON for each."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from bench.errors import BenchFailed
from bench.gpu import engine_check, engine_times, kernel_times
from bench.gpu.kernel_checks import check_kernels
from engine.errors import EngineError

_DTYPE = torch.bfloat16
# What a session on a borrowed card allows, less what may be under way when it is over.
_BUDGET_S = 400

Lines = Iterable[dict[str, Any]]


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    device = torch.device("cpu" if args.dry_run else "cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.stderr.write("bench.gpu: there is no CUDA device; try --dry-run\n")
        return 1
    end = time.perf_counter() + args.budget_s
    try:
        for what, lines in _sections(device, dry=args.dry_run):
            _tell(what, lines, end=end)
    except (BenchFailed, EngineError) as error:
        sys.stderr.write(f"bench.gpu: no figures: {error}\n")
        return 1
    return 0


def _sections(device: torch.device, *, dry: bool) -> Iterator[tuple[str, Lines]]:
    """What is most worth knowing comes first: the rest may be left out."""
    crowds = (engine_check.SMALL,) if dry else (engine_check.SMALL, engine_check.LARGE)
    sizes = kernel_times.SMALL if dry else kernel_times.LARGE
    models = engine_times.SMALL if dry else engine_times.LARGE
    yield "machine", [_machine(device)]
    yield "kernels agree", ({"comparisons": check_kernels(device)} for _ in range(1))
    yield "engine agrees", (engine_check.check_engine(crowd, device) for crowd in crowds)
    ceilings = kernel_times.ceilings(sizes, _DTYPE, device)
    yield "ceilings", [ceilings]
    yield "kernel", kernel_times.kernel_times(sizes, _DTYPE, device, **ceilings)
    if device.type == "cuda":
        yield from _of_triton(device)
    for model in models:
        yield "engine", engine_times.engine_times(model, device, **ceilings)


def _of_triton(device: torch.device) -> Iterator[tuple[str, Lines]]:
    """What can only be told where its kernels run; a machine without a GPU need not have it."""
    from bench.gpu import parts_times, tile_times

    yield "parts", parts_times.parts_times(parts_times.LARGE, _DTYPE, device)
    yield "tiles", tile_times.tile_times(tile_times.LARGE, _DTYPE, device)


def _tell(what: str, lines: Lines, *, end: float) -> None:
    started = time.perf_counter()
    if started > end:
        print(json.dumps({"gpu": what, "left_out": "the time was up"}), flush=True)
        return
    for line in lines:
        now = time.perf_counter()
        took = {"took_s": round(now - started, 1)}
        print(json.dumps({"gpu": what, **line, **took}), flush=True)
        started = now
        if now > end:
            return


def _machine(device: torch.device) -> dict[str, Any]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "none: a dry run"
    return {"device": name, "torch": torch.__version__, "python": sys.version.split()[0]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument(
        "--dry-run", action="store_true", help="on the CPU, with sizes that say nothing"
    )
    parser.add_argument(
        "--budget-s", type=float, default=_BUDGET_S, help="nothing more is begun after so long"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
