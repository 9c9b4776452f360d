"""Compiles for a GPU that need not be there: `python -m tests.kernels.compile_launches 90`.

Every op runs once for each model shape, with its kernels' launches replaced by compilations for the
given compute capability.  So what is compiled is what would have been launched, specialised on the
same arguments.  The assembler's report on each kernel is printed.
"""

import functools
import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from kernels import AttentionMetadata, gpu
from kernels.gpu.attention_call import AttentionCall
from kernels.gpu.attention_parts import Part, lay_out
from kernels.gpu.paged_attention import attend, geometry_of


class Shape(NamedTuple):
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate: int


SMOLLM2_135M = Shape(9, 3, 64, 1536)
LLAMA_3_8B = Shape(32, 8, 128, 14336)
GEMMA_3_1B = Shape(4, 1, 256, 6912)
STEPS = [
    (LLAMA_3_8B, torch.bfloat16),
    (LLAMA_3_8B, torch.float32),
    (SMOLLM2_135M, torch.float16),
    (GEMMA_3_1B, torch.bfloat16),
]


class AbsentGPU:
    """As much of a Triton driver as compiling asks for."""

    def __init__(self, capability):
        self._target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self._target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return device


def run_every_op(shape, dtype):
    num_tokens = 32
    q = torch.zeros(num_tokens, shape.num_heads, shape.head_dim, dtype=dtype)
    k = torch.zeros(num_tokens, shape.num_kv_heads, shape.head_dim, dtype=dtype)
    cache = torch.zeros(8, 16, shape.num_kv_heads, shape.head_dim, dtype=dtype)
    hidden = q.flatten(1)
    index = torch.zeros(num_tokens, dtype=torch.int64)
    metadata = AttentionMetadata(
        block_tables=torch.zeros(17, 4, dtype=torch.int32),
        seq_lens=torch.ones(17, dtype=torch.int32),
        query_starts=torch.tensor([*range(17), num_tokens], dtype=torch.int32),
        num_decodes=16,
        max_query_len=16,
        max_seq_len=16,
    )
    gpu.rms_norm(hidden, hidden[0], 1e-5)
    gpu.add_rms_norm(hidden, hidden, hidden[0], 1e-5)
    gpu.rotary_embedding(q, k, index, torch.zeros(64, shape.head_dim))
    gate_up = torch.zeros(num_tokens, 2 * shape.intermediate, dtype=dtype)
    gpu.silu_mul(gate_up)
    gpu.gelu_mul(gate_up)
    gpu.store_kv(k, k, cache, cache, index)
    gpu.paged_attention(q, cache, cache, metadata, scale=0.125, window=None)
    call = AttentionCall.of(q, cache, cache, metadata, scale=0.125, window=None)
    heights = geometry_of(call).heights
    groups = [Part(np.arange(count), 0, 0, 1) for count in (1, heights.narrow + 1)]
    parts = lay_out(groups, np.zeros(17), q, heights=heights)
    attend(replace(call, parts=parts))


def compile_instead(kernel, grid):
    return functools.partial(kernel.warmup, grid=grid)


def main(capability):
    triton.runtime.driver.set_active(AbsentGPU(capability))
    triton.knobs.nvidia.dump_ptxas_log = True
    JITFunction.__getitem__ = compile_instead
    for shape, dtype in STEPS:
        run_every_op(shape, dtype)


if __name__ == "__main__":
    main(int(sys.argv[1]))
