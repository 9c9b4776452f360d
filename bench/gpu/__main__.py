"""python -m bench.gpu: check, then measure, one line of JSON for each."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from bench.errors import BenchFailed
from bench.gpu import engine_times, kernel_times
from bench.gpu.engine_check import check_engine
from bench.gpu.kernel_checks import check_kernels
from engine.errors import EngineError


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    device = torch.device("cpu" if args.dry_run else "cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.stderr.write("bench.gpu: there is no CUDA device; try --dry-run\n")
        return 1
    try:
        _run(device, dry=args.dry_run)
    except (BenchFailed, EngineError) as error:
        sys.stderr.write(f"bench.gpu: no figures: {error}\n")
        return 1
    return 0


def _run(device: torch.device, *, dry: bool) -> None:
    sizes = kernel_times.SMALL if dry else kernel_times.LARGE
    trial = engine_times.SMALL if dry else engine_times.LARGE
    _tell("machine", lambda: _machine(device))
    _tell("kernels agree", lambda: {"comparisons": check_kernels(device)})
    _tell("engine agrees", lambda: check_engine(device))
    dtype = torch.bfloat16
    ceilings = _tell("ceilings", lambda: kernel_times.ceilings(sizes, dtype, device))
    for figures in kernel_times.kernel_times(sizes, dtype, device):
        _print("kernel", figures)
    _tell("engine", lambda: engine_times.engine_times(trial, device, **ceilings))


def _tell(what: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    started = time.perf_counter()
    figures = measure()
    _print(what, {**figures, "took_s": round(time.perf_counter() - started, 1)})
    return figures


def _print(what: str, figures: dict[str, Any]) -> None:
    print(json.dumps({"gpu": what, **figures}), flush=True)


def _machine(device: torch.device) -> dict[str, Any]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "none: a dry run"
    return {"device": name, "torch": torch.__version__, "python": sys.version.split()[0]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument(
        "--dry-run", action="store_true", help="on the CPU, with sizes that say nothing"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
