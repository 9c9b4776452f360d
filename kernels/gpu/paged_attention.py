"""Launches the decode kernel and the prefill kernel over one step."""

import math

import torch

from kernels.attention_metadata import AttentionMetadata
from kernels.gpu.decode_attention import launch_decode
from kernels.gpu.prefill_attention import launch_prefill


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale: float,
) -> torch.Tensor:
    # One kernel for both would be half as fast: neither loop is pipelined well (arXiv:2511.11581).
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    scale_log2 = scale * math.log2(math.e)
    if metadata.num_decodes:
        launch_decode(out, q, k_cache, v_cache, metadata, scale_log2)
    if metadata.num_prefills:
        launch_prefill(out, q, k_cache, v_cache, metadata, scale_log2)
    return out
