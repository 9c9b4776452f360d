"""Chooses who computes an op: Triton for CUDA tensors; for the rest C, or PyTorch without it.

`kernels.gpu`, `native` and `cpu` offer the same functions; mypy holds all against `Ops`.  The
public function of an op checks its arguments first, so none of them checks again.

Under TRITON_INTERPRET=1 CPU tensors go to Triton too: that is how its kernels are tested where
there is no GPU.
"""

import functools
from typing import Protocol

import torch
from torch import Tensor

from kernels import cpu, native
from kernels.attention_metadata import AttentionMetadata
from kernels.settings import INTERPRETED


class Ops(Protocol):
    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor: ...

    def add_rms_norm(
        self, x: Tensor, residual: Tensor, weight: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]: ...

    def rotary_embedding(
        self, q: Tensor, k: Tensor, positions: Tensor, cos_sin: Tensor
    ) -> tuple[Tensor, Tensor]: ...

    def silu_mul(self, gate_up: Tensor) -> Tensor: ...

    def gelu_mul(self, gate_up: Tensor) -> Tensor: ...

    def store_kv(
        self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor
    ) -> None: ...

    def paged_attention(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        metadata: AttentionMetadata,
        *,
        scale: float,
        window: int | None,
    ) -> Tensor: ...


def ops_for(x: torch.Tensor) -> Ops:
    if x.is_cuda or INTERPRETED:
        return _triton_ops()
    return native if native.library() else cpu


@functools.cache
def _triton_ops() -> Ops:
    # Imported on first use: a CPU machine need not have Triton.
    from kernels import gpu

    return gpu
