"""Every op as Triton kernels, with the function that launches each.

Launchers take checked arguments.  Offsets that may pass 2**31 elements are computed in int64.
"""

from kernels.gpu.gelu_mul import gelu_mul
from kernels.gpu.paged_attention import paged_attention
from kernels.gpu.rms_norm import add_rms_norm, rms_norm
from kernels.gpu.rotary_embedding import rotary_embedding
from kernels.gpu.silu_mul import silu_mul
from kernels.gpu.store_kv import store_kv

__all__ = [
    "add_rms_norm",
    "gelu_mul",
    "paged_attention",
    "rms_norm",
    "rotary_embedding",
    "silu_mul",
    "store_kv",
]
