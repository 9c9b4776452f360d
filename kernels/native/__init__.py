"""Every op for CPU tensors in C, for AVX2: what the engine runs on where it can be compiled.

Tuned for fp32.  What a kernel cannot do, a size or a type, PyTorch does (`kernels.cpu`).
"""

from kernels.native.kv_cache import can_attend, can_cache, view_k, view_v
from kernels.native.library import library
from kernels.native.paged_attention import paged_attention
from kernels.native.program import record
from kernels.native.rowwise import (
    add_rms_norm,
    can_compute_rows,
    gelu_mul,
    rms_norm,
    rotary_embedding,
    silu_mul,
    store_kv,
)

__all__ = [
    "add_rms_norm",
    "can_attend",
    "can_cache",
    "can_compute_rows",
    "gelu_mul",
    "library",
    "paged_attention",
    "record",
    "rms_norm",
    "rotary_embedding",
    "silu_mul",
    "store_kv",
    "view_k",
    "view_v",
]
