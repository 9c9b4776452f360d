"""Attention of chunks of several query rows, causal, over what their sequences have cached.

One program per BLOCK_Q tokens of one chunk and per KV head; its tile has a row for each token and
head that share the KV head.  The grid is an upper bound that needs no lengths on the host: a
chunk starts no later than at its first row / BLOCK_Q plus the chunks before it, programs find
theirs by binary search, and the surplus ones leave.
"""

import torch
import triton
import triton.language as tl

from kernels.attention_metadata import AttentionMetadata
from kernels.gpu.attention_tile import fold_tile, load_tile


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
    q_stride, table_stride, num_decodes, num_chunks, window, scale_log2,
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
    table_ptr = tables_ptr + seq * table_stride

    rows = tl.arange(0, ROWS)
    tokens = first_token + rows // GROUP
    heads = kv_head * GROUP + rows % GROUP
    dims = tl.arange(0, DIM_TILE)
    row_live = (rows < BLOCK_Q * GROUP) & (tokens < chunk_len)
    q_live = row_live[:, None] & (dims < HEAD_DIM)[None, :]
    in_token = heads[:, None] * HEAD_DIM + dims[None, :]
    token_rows = (first_row + tokens).to(tl.int64)[:, None]
    q = tl.load(q_ptr + token_rows * q_stride + in_token, mask=q_live, other=0.0)

    own_positions = seq_len - chunk_len + tokens
    # Nothing after the program's last token is seen by any of its rows.
    seen = tl.minimum(seq_len, seq_len - chunk_len + first_token + BLOCK_Q)
    # Nor is anything before the window of its first.
    first_seen = tl.maximum(seq_len - chunk_len + first_token + 1 - window, 0)
    peak = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, DIM_TILE], tl.float32)
    for start in range(first_seen, seen, TILE):
        positions = start + tl.arange(0, TILE)
        live = positions < seen
        k, v = load_tile(
            k_cache_ptr, v_cache_ptr, table_ptr, positions, live, kv_head,
            BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM, DIM_TILE,
        )  # fmt: skip
        back = own_positions[:, None] - positions[None, :]
        visible = live[None, :] & (back >= 0) & (back < window)
        peak, total, acc = fold_tile(peak, total, acc, q, k, v, visible, scale_log2)

    out_at = token_rows * (NUM_KV_HEADS * GROUP * HEAD_DIM) + in_token
    # A row past the chunk's end may have seen nothing; it is not stored.
    out = acc / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(out_ptr + out_at, out, mask=q_live)


def launch_prefill(
    out: torch.Tensor,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale_log2: float,
    window: int,
) -> None:
    """Fill the chunks' rows of `out`."""
    _, block_size, num_kv_heads, head_dim = k_cache.shape
    group = q.shape[1] // num_kv_heads
    # fp32 products run on no tensor core: their operands fill the registers twice as fast.
    rows = max(32 if q.element_size() == 4 else 64, triton.next_power_of_2(group))
    dim_tile = max(16, triton.next_power_of_2(head_dim))
    block_q = rows // group
    num_programs = (len(q) - metadata.num_decodes) // block_q + metadata.num_prefills
    prefill_kernel[(num_programs, num_kv_heads)](
        out, q, k_cache, v_cache, metadata.block_tables, metadata.seq_lens,
        metadata.query_starts,
        q.stride(0), metadata.block_tables.stride(0), metadata.num_decodes,
        metadata.num_prefills, window, scale_log2,
        BLOCK_SIZE=block_size, NUM_KV_HEADS=num_kv_heads, GROUP=group, HEAD_DIM=head_dim,
        BLOCK_Q=block_q, ROWS=rows, TILE=32, DIM_TILE=dim_tile,
        num_warps=4 if dim_tile <= 128 else 8,
    )  # fmt: skip
