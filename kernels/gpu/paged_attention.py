"""Launches the decode kernel and the prefill kernel over one step."""

import math

import torch

from kernels.attention_metadata import AttentionMetadata
from kernels.gpu.decode_attention import launch_decode
from kernels.gpu.prefill_attention import launch_prefill

# More tokens than any sequence has, and 32 bits hold it.
ALL = 2**31 - 1


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    # One kernel for both would be half as fast: neither loop is pipelined well (arXiv:2511.11581).
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    tensors = out, q, k_cache, v_cache
    scale_log2 = scale * math.log2(math.e)
    window = ALL if window is None else window
    if metadata.num_decodes:
        launch_decode(*tensors, metadata, scale_log2=scale_log2, window=window)
    if metadata.num_prefills:
        launch_prefill(*tensors, metadata, scale_log2=scale_log2, window=window)
    return out
