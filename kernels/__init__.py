"""The operations of a decoder layer that PyTorch has no good one for: tensors in, tensors out.

Each public function checks its arguments, then computes with a Triton kernel (`kernels/gpu/`) or,
for CPU tensors, in C (`kernels/native/`) or with PyTorch (`kernels/cpu/`).
`kernels/reference.py` says what each computes.
"""

from kernels.attention_metadata import AttentionMetadata
from kernels.gelu_mul import gelu_mul
from kernels.kv_cache import view_kv_cache
from kernels.packed_weight import Packed, pack_int8_weight, pack_weight
from kernels.paged_attention import paged_attention
from kernels.recording import Recorded, record
from kernels.rms_norm import add_rms_norm, rms_norm
from kernels.rotary_embedding import rotary_embedding
from kernels.silu_mul import silu_mul
from kernels.store_kv import store_kv

__all__ = [
    "AttentionMetadata",
    "Packed",
    "Recorded",
    "add_rms_norm",
    "gelu_mul",
    "pack_int8_weight",
    "pack_weight",
    "paged_attention",
    "record",
    "rms_norm",
    "rotary_embedding",
    "silu_mul",
    "store_kv",
    "view_kv_cache",
]
