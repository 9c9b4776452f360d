"""What this machine can do at best, measured: matrix products and copying.

    python -m bench.ceiling

prints a line for each shape, then the machine's.  The other benchmarks take only the highest figure
of fp32, before and after their own run: on a shared machine a ceiling is a matter of the minute.
"""

import json
import os
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

# Rows, input features, output features: SmolLM2-135M's MLP for steps of few and many tokens, its
# head, Qwen2.5-0.5B's MLP, and a square that no model asks for.
SHAPES = (
    *((rows, 576, 1536) for rows in (1, 8, 16, 64, 128, 256, 512)),
    (64, 1536, 576),
    (512, 1536, 576),
    (64, 576, 49152),
    (64, 896, 4864),
    (512, 896, 4864),
    (2048, 2048, 2048),
)
# Where fp32 has been seen to be fastest: what `peak_gflops` tries.
_PEAK_SHAPES = ((512, 576, 1536), (512, 1536, 576), (512, 896, 4864), (2048, 2048, 2048))
_COPIED_BYTES = 256 * 2**20


def best_seconds(run: Callable[[], object], *, for_seconds: float) -> float:
    """The fastest of as many calls as fit, after two that warm up."""
    run()
    run()
    best, spent = float("inf"), 0.0
    while spent < for_seconds:
        started = time.perf_counter()
        run()
        elapsed = time.perf_counter() - started
        best, spent = min(best, elapsed), spent + elapsed
    return best


@torch.inference_mode()
def fp32_gflops(rows: int, inputs: int, outputs: int, *, for_seconds: float = 0.6) -> float:
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    seconds = best_seconds(lambda: F.linear(x, weight), for_seconds=for_seconds)
    return 2e-9 * rows * inputs * outputs / seconds


@torch.inference_mode()
def int8_gops(rows: int, inputs: int, outputs: int, *, for_seconds: float = 0.6) -> float:
    """A product of int8 with int8, int32 sums, without what quantises or scales."""
    x = torch.randint(-127, 127, (rows, inputs), dtype=torch.int8)
    weight = torch.randint(-127, 127, (inputs, outputs), dtype=torch.int8)
    seconds = best_seconds(lambda: torch._int_mm(x, weight), for_seconds=for_seconds)
    return 2e-9 * rows * inputs * outputs / seconds


def peak_gflops(*, for_seconds: float = 0.8) -> float:
    """The best that fp32 reaches now, on all cores that we may use.  for_seconds: each shape"""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return max(fp32_gflops(*shape, for_seconds=for_seconds) for shape in _PEAK_SHAPES)


@torch.inference_mode()
def copy_gb_s() -> float:
    """Bytes read and written."""
    source = torch.ones(_COPIED_BYTES, dtype=torch.uint8)
    target = torch.zeros_like(source)
    seconds = best_seconds(lambda: target.copy_(source), for_seconds=2.0)
    return 2e-9 * _COPIED_BYTES / seconds


def main() -> None:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    for rows, inputs, outputs in SHAPES:
        figures = {
            "rows": rows,
            "inputs": inputs,
            "outputs": outputs,
            "fp32_gflops": round(fp32_gflops(rows, inputs, outputs), 1),
            "int8_gops": round(int8_gops(rows, inputs, outputs), 1),
        }
        print(json.dumps(figures), flush=True)
    machine = {
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "copy_gb_s": round(copy_gb_s(), 1),
    }
    print(json.dumps(machine))


if __name__ == "__main__":
    main()
