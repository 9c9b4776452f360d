"""The engine's settings: as they are asked for, and resolved.

`EngineSettings` may leave anything out; `EngineConfig` has a value for everything.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict

import torch

Precision = Literal["auto", "fp32", "bf16", "fp16", "int8"]

# int8 is that of matrices: activations are fp32 between them, K and V fp16.
DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int8": torch.int8,
}


def kv_dtype(dtype: torch.dtype) -> torch.dtype:
    """What K and V are kept in, for a precision."""
    return torch.float16 if dtype == torch.int8 else dtype


class EngineSettings(TypedDict, total=False):
    """device: auto, cpu, cuda or cuda:N
    precision: auto is bf16 on CUDA and fp32 on a CPU; int8 is for CPUs
    max_model_len: tokens of prompt and completion together; default: what the model and KV allow
    max_num_seqs, max_num_batched_tokens: sequences and tokens of one step
    kv_cache_bytes: default: what `memory_fraction` of the card leaves beside the weights; on a CPU
        a share of the memory that is free
    block_size: tokens of a KV block
    threads: that compute on a CPU; default: the CPUs that this process may use, see `container`
    deterministic: refuse to start where a request's tokens could depend on what shares its steps
    """

    device: str
    precision: Precision
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    kv_cache_bytes: int | None
    memory_fraction: float
    block_size: int
    threads: int | None
    deterministic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """dtype: one of DTYPES
    num_blocks: KV blocks of block_size tokens
    memory_fraction: what decided how many, unless kv_cache_bytes was given or there is no card
    """

    dtype: torch.dtype
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    num_blocks: int
    memory_fraction: float

    @property
    def num_kv_tokens(self) -> int:
        return self.num_blocks * self.block_size

    @property
    def max_concurrency(self) -> float:
        """Requests of max_model_len tokens that fit at once, nothing shared."""
        return self.num_blocks / -(-self.max_model_len // self.block_size)
