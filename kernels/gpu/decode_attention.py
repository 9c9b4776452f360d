"""Attention of one query row per sequence.

One program per sequence and KV head.  The heads that share the KV head are the rows of one tile, so
K and V are read once for all of them, and padded to 16 rows so that the products run on tensor
cores.  What was computed for a row's first keys before (`part_attention`) is where its softmax
begins.
"""

import triton
import triton.language as tl

from kernels.gpu.attention_call import AttentionCall
from kernels.gpu.attention_tile import fold_keys, fold_parts


@triton.jit(do_not_specialize=["table_stride", "window"])
def decode_kernel(
    out_ptr, q_ptr, k_cache_ptr, v_cache_ptr, tables_ptr, seq_lens_ptr,
    part_out_ptr, part_lse_ptr, row_starts_ptr, key_starts_ptr,
    q_stride, table_stride, window, scale_log2,
    HAS_PARTS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, DIM_TILE: tl.constexpr,
):  # fmt: skip
    seq = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    seq_len = tl.load(seq_lens_ptr + seq)

    rows = tl.arange(0, ROWS)
    heads = kv_head * GROUP + rows
    dims = tl.arange(0, DIM_TILE)
    q_live = (rows < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    head_at = heads[:, None] * HEAD_DIM + dims[None, :]
    q = tl.load(q_ptr + seq * q_stride + head_at, mask=q_live, other=0.0)

    first = tl.maximum(seq_len - window, 0)
    peak = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, DIM_TILE], tl.float32)
    if HAS_PARTS:
        first = tl.load(key_starts_ptr + seq)
        num_parts = tl.load(row_starts_ptr + seq + 1) - tl.load(row_starts_ptr + seq)
        peak, total, acc = fold_parts(
            peak, total, acc, rows < GROUP, heads, seq + rows * 0, num_parts,
            part_out_ptr, part_lse_ptr, row_starts_ptr,
            NUM_KV_HEADS * GROUP, HEAD_DIM, DIM_TILE,
        )  # fmt: skip
    peak, total, acc = fold_keys(
        peak, total, acc, q, rows, first, seq_len, window,
        k_cache_ptr, v_cache_ptr, tables_ptr + seq * table_stride, kv_head, scale_log2,
        False, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM, TILE, DIM_TILE,
    )  # fmt: skip

    # A padding row has folded nothing: 0 / 1.
    out = acc / tl.where(total > 0, total, 1.0)[:, None]
    out_row = seq * (NUM_KV_HEADS * GROUP * HEAD_DIM)
    tl.store(out_ptr + out_row + head_at, out, mask=q_live)


def launch_decode(call: AttentionCall) -> None:
    """Fill the decodes' rows of `out`."""
    metadata = call.metadata
    decode_kernel[(metadata.num_decodes, call.kv_heads)](
        call.out, call.q, call.k_cache, call.v_cache, metadata.block_tables, metadata.seq_lens,
        *call.parts_arguments(),
        call.q.stride(0), metadata.block_tables.stride(0), call.window, call.scale_log2,
        HAS_PARTS=call.parts is not None,
        ROWS=call.tiles.decode_rows, TILE=call.tiles.keys,
        **call.constants(),
    )  # fmt: skip
