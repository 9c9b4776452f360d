"""Attention of query rows over keys that all of them see: what a group shares, or a stretch of one
row's long context.

One program per item, at most a tile's height of query rows, and per KV head; the tile has a row for
each query row and head that share the KV head.  It writes normalised outputs and their lse in fp32,
which the kernel that meets the rows' last keys folds into its softmax: no kernel merges.

Source: one pass for all who share a prefix from Juravsky et al. 2024, arXiv:2402.05099, sec. 3.2.
"""

import torch
import triton
import triton.language as tl

from kernels.gpu.attention_call import AttentionCall
from kernels.gpu.attention_parts import ITEM_SIZE, Parts
from kernels.gpu.attention_tile import fold_keys


@triton.jit(do_not_specialize=["table_stride"])
def part_kernel(
    out_ptr, lse_ptr, q_ptr, k_cache_ptr, v_cache_ptr, tables_ptr,
    items_ptr, rows_ptr, slots_ptr,
    q_stride, table_stride, scale_log2,
    ITEM_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, DIM_TILE: tl.constexpr,
):  # fmt: skip
    item_ptr = items_ptr + tl.program_id(0) * ITEM_SIZE
    kv_head = tl.program_id(1)
    table_ptr = tables_ptr + tl.load(item_ptr).to(tl.int64) * table_stride
    first, end = tl.load(item_ptr + 1), tl.load(item_ptr + 2)
    first_member, end_member = tl.load(item_ptr + 3), tl.load(item_ptr + 4)

    rows = tl.arange(0, ROWS)
    members = first_member + rows // GROUP
    heads = kv_head * GROUP + rows % GROUP
    dims = tl.arange(0, DIM_TILE)
    row_live = members < end_member
    live = row_live[:, None] & (dims < HEAD_DIM)[None, :]
    q_rows = tl.load(rows_ptr + members, mask=row_live, other=0).to(tl.int64)
    q_at = q_rows[:, None] * q_stride + heads[:, None] * HEAD_DIM + dims[None, :]
    q = tl.load(q_ptr + q_at, mask=live, other=0.0)

    peak = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, DIM_TILE], tl.float32)
    peak, total, acc = fold_keys(
        peak, total, acc, q, rows, first, end, 0,
        k_cache_ptr, v_cache_ptr, table_ptr, kv_head, scale_log2,
        False, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM, TILE, DIM_TILE,
    )  # fmt: skip

    # Of no keys the output is 0 and the lse -inf, for that is the peak.
    total = tl.where(total > 0, total, 1.0)
    slots = tl.load(slots_ptr + members, mask=row_live, other=0).to(tl.int64)
    at = slots * (NUM_KV_HEADS * GROUP) + heads
    tl.store(lse_ptr + at, peak + tl.log2(total), mask=row_live)
    tl.store(out_ptr + at[:, None] * HEAD_DIM + dims[None, :], acc / total[:, None], mask=live)


def launch_parts(call: AttentionCall, parts: Parts) -> None:
    """Compute a step's parts."""
    for items, rows in (
        (parts.narrow, call.tiles.decode_rows),
        (parts.wide, call.tiles.part_rows),
    ):
        if len(items):
            _launch(call, parts, items, rows=rows)


def _launch(call: AttentionCall, parts: Parts, items: torch.Tensor, *, rows: int) -> None:
    part_kernel[(len(items), call.kv_heads)](
        parts.out, parts.lse, call.q, call.k_cache, call.v_cache, call.metadata.block_tables,
        items, parts.rows, parts.slots,
        call.q.stride(0), call.metadata.block_tables.stride(0), call.scale_log2,
        ITEM_SIZE=ITEM_SIZE, ROWS=rows, TILE=call.tiles.keys,
        num_warps=call.tiles.part_warps(rows), num_stages=call.tiles.stages,
        **call.constants(),
    )  # fmt: skip
