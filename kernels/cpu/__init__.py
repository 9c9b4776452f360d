"""Every op for CPU tensors, in PyTorch alone: for where `kernels.native` cannot be compiled.

Tuned for fp32.  bf16 and fp16 are computed in fp32 and rounded: right, but not fast.
"""

from kernels.cpu.gelu_mul import gelu_mul
from kernels.cpu.paged_attention import paged_attention
from kernels.cpu.rms_norm import add_rms_norm, rms_norm
from kernels.cpu.rotary_embedding import rotary_embedding
from kernels.cpu.silu_mul import silu_mul
from kernels.cpu.store_kv import store_kv

__all__ = [
    "add_rms_norm",
    "gelu_mul",
    "paged_attention",
    "rms_norm",
    "rotary_embedding",
    "silu_mul",
    "store_kv",
]
