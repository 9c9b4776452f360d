"""Tells a step whose memory could not be had from every other failure."""

import torch

# What torch's allocator for the CPU raises is a plain RuntimeError with these words in it.
_CPU_ALLOCATOR = "DefaultCPUAllocator: can't allocate memory"


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _CPU_ALLOCATOR in str(error)
