"""Attention of chunks of several query rows, causal, over what their sequences have cached.

One program per BLOCK_Q tokens of one chunk and per KV head; its tile has a row for each token and
head that share the KV head.  The grid is an upper bound that needs no lengths on the host: a
chunk starts no later than at its first row / BLOCK_Q plus the chunks before it, programs find
theirs by binary search, and the surplus ones leave.  What was computed for a chunk's first keys
before (`part_attention`) is where its rows' softmax begins.
"""

import triton
import triton.language as tl

from kernels.gpu.attention_call import AttentionCall
from kernels.gpu.attention_tile import fold_keys, fold_parts


@triton.jit
def _first_program(starts_ptr, chunk, BLOCK_Q: tl.constexpr):
    """The first of the programs set aside for a chunk."""
    return (tl.load(starts_ptr + chunk) - tl.load(starts_ptr)) // BLOCK_Q + chunk


@triton.jit
def _chunk_of_program(starts_ptr, num_chunks, program, BLOCK_Q: tl.constexpr):
    low = 0
    high = num_chunks
    while high - low > 1:
        middle = (low + high) // 2
        if _first_program(starts_ptr, middle, BLOCK_Q) <= program:
            low = middle
        else:
            high = middle
    return low


@triton.jit(do_not_specialize=["table_stride", "num_decodes", "num_chunks", "window"])
def prefill_kernel(
    out_ptr, q_ptr, k_cache_ptr, v_cache_ptr, tables_ptr, seq_lens_ptr, starts_ptr,
    part_out_ptr, part_lse_ptr, row_starts_ptr, key_starts_ptr,
    q_stride, table_stride, num_decodes, num_chunks, window, scale_log2,
    HAS_PARTS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
    DIM_TILE: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    kv_head = tl.program_id(1)
    starts_ptr += num_decodes
    chunk = _chunk_of_program(starts_ptr, num_chunks, program, BLOCK_Q)
    first_row = tl.load(starts_ptr + chunk)
    chunk_len = tl.load(starts_ptr + chunk + 1) - first_row
    first_token = (program - _first_program(starts_ptr, chunk, BLOCK_Q)) * BLOCK_Q
    if first_token >= chunk_len:
        return

    seq = (num_decodes + chunk).to(tl.int64)
    seq_len = tl.load(seq_lens_ptr + seq)

    rows = tl.arange(0, ROWS)
    tokens = first_token + rows // GROUP
    heads = kv_head * GROUP + rows % GROUP
    dims = tl.arange(0, DIM_TILE)
    row_live = (rows < BLOCK_Q * GROUP) & (tokens < chunk_len)
    q_live = row_live[:, None] & (dims < HEAD_DIM)[None, :]
    in_token = heads[:, None] * HEAD_DIM + dims[None, :]
    token_rows = (first_row + tokens).to(tl.int64)
    q = tl.load(q_ptr + token_rows[:, None] * q_stride + in_token, mask=q_live, other=0.0)

    own_positions = seq_len - chunk_len + tokens
    # Nothing after the program's last token is seen by any of its rows.
    end = tl.minimum(seq_len, seq_len - chunk_len + first_token + BLOCK_Q)
    # Nor is anything before the window of its first.
    first = tl.maximum(seq_len - chunk_len + first_token + 1 - window, 0)
    peak = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, DIM_TILE], tl.float32)
    if HAS_PARTS:
        first = tl.load(key_starts_ptr + seq)
        row_starts_at = row_starts_ptr + first_row
        num_parts = tl.load(row_starts_at + 1) - tl.load(row_starts_at)
        peak, total, acc = fold_parts(
            peak, total, acc, row_live, heads, token_rows, num_parts,
            part_out_ptr, part_lse_ptr, row_starts_ptr,
            NUM_KV_HEADS * GROUP, HEAD_DIM, DIM_TILE,
        )  # fmt: skip
    peak, total, acc = fold_keys(
        peak, total, acc, q, own_positions, first, end, window,
        k_cache_ptr, v_cache_ptr, tables_ptr + seq * table_stride, kv_head, scale_log2,
        True, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM, TILE, DIM_TILE,
    )  # fmt: skip

    out_at = token_rows[:, None] * (NUM_KV_HEADS * GROUP * HEAD_DIM) + in_token
    # A row past the chunk's end may have seen nothing; it is not stored.
    out = acc / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(out_ptr + out_at, out, mask=q_live)


def launch_prefill(call: AttentionCall) -> None:
    """Fill the chunks' rows of `out`."""
    metadata = call.metadata
    rows = call.tiles.prefill_rows
    block_q = rows // call.group
    num_programs = (len(call.q) - metadata.num_decodes) // block_q + metadata.num_prefills
    prefill_kernel[(num_programs, call.kv_heads)](
        call.out, call.q, call.k_cache, call.v_cache, metadata.block_tables, metadata.seq_lens,
        metadata.query_starts, *call.parts_arguments(),
        call.q.stride(0), metadata.block_tables.stride(0), metadata.num_decodes,
        metadata.num_prefills, call.window, call.scale_log2,
        HAS_PARTS=call.parts is not None,
        BLOCK_Q=block_q, ROWS=rows, TILE=call.tiles.prefill_keys,
        num_warps=call.tiles.prefill_warps,
        **call.constants(),
    )  # fmt: skip
