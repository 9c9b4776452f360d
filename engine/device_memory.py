"""How much memory the KV cache may take."""

import ctypes
from pathlib import Path

import torch

from engine.container import memory_left

GIB = 1024**3
CPU_SHARE = 0.25  # of the free memory: a machine's memory is not ours alone, as a card's is
CPU_LIMIT = 2 * GIB


def memory_for_kv(device: torch.device, *, memory_fraction: float, reserve: int) -> int:
    """Bytes, with the weights loaded already.

    memory_fraction: of the card's memory, for all that the engine keeps on it
    reserve: bytes of it that a step's activations need
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return int(free - total * (1 - memory_fraction)) - reserve
    return min(CPU_LIMIT, int(CPU_SHARE * _free_memory()))


def give_back_freed_memory() -> None:
    """Return to the system what this process has freed and its libc keeps, if it is GNU's."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _free_memory() -> int:
    """Bytes that could be had without swapping, as the kernel estimates it."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
            left = memory_left()
            return available if left is None else max(0, min(available, left))
    raise OSError("/proc/meminfo does not say MemAvailable")
