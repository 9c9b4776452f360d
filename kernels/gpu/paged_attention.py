"""Launches the attention kernels over one step: what is computed in parts, decodes, chunks."""

import functools
from dataclasses import replace

import torch

from kernels.attention_metadata import AttentionMetadata
from kernels.gpu.attention_call import AttentionCall
from kernels.gpu.attention_parts import Heights, Parts, lay_out
from kernels.gpu.decode_attention import launch_decode
from kernels.gpu.part_attention import launch_parts
from kernels.gpu.prefill_attention import launch_prefill
from kernels.gpu.sharing import Geometry, choose_parts

# Where Triton is interpreted, of the card that the tiles are meant for.
MULTIPROCESSORS = 132


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    call = AttentionCall.of(q, k_cache, v_cache, metadata, scale=scale, window=window)
    # Under a window nothing is shared: what two rows both see, each sees from another key on.
    if call.window >= metadata.max_seq_len:
        parts = metadata.once(
            (plan_parts, q.shape[1], k_cache.shape[1:], q.dtype),
            lambda: plan_parts(call, geometry_of(call)),
        )
        return attend(replace(call, parts=parts))
    return attend(call)


def attend(call: AttentionCall) -> torch.Tensor:
    """Returns call.out, filled."""
    if call.parts is not None:
        launch_parts(call, call.parts)
    # One kernel for all would be half as fast: no loop is pipelined well (arXiv:2511.11581).
    if call.metadata.num_decodes:
        launch_decode(call)
    if call.metadata.num_prefills:
        launch_prefill(call)
    return call.out


def plan_parts(call: AttentionCall, geometry: Geometry) -> Parts | None:
    """A step's, the same for all of its layers; None if nothing is worth being in one."""
    step, num_decodes = call.metadata.on_host(), call.metadata.num_decodes
    parts, key_starts = choose_parts(step, num_decodes, geometry)
    return lay_out(parts, key_starts, call.q, heights=geometry.heights) if parts else None


def geometry_of(call: AttentionCall) -> Geometry:
    _, block_size, kv_heads, head_dim = call.k_cache.shape
    group, tiles = call.group, call.tiles
    return Geometry(
        num_heads=call.q.shape[1],
        kv_heads=kv_heads,
        head_dim=head_dim,
        block_size=block_size,
        itemsize=call.q.element_size(),
        heights=Heights(tiles.decode_rows // group, tiles.part_rows // group),
        prefill_rows=tiles.prefill_rows // group,
        multiprocessors=_multiprocessors(call.q.device),
    )


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return MULTIPROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count
