"""How long a call takes on its device."""

from collections.abc import Callable

import torch

from bench.ceiling import best_seconds

_CPU_SECONDS = 0.02  # of a dry run, which only has to work


def seconds_per_call(run: Callable[[], object], device: torch.device) -> float:
    """The median, with the caches emptied in between; on a CPU roughly the best."""
    if device.type != "cuda":
        return best_seconds(run, for_seconds=_CPU_SECONDS)
    from triton.testing import do_bench

    milliseconds: float = do_bench(run, warmup=25, rep=100, return_mode="median")
    return milliseconds / 1e3
