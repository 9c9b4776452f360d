"""Attention of one query row per sequence.

One program per sequence and KV head.  The heads that share the KV head are the rows of one tile, so
K and V are read once for all of them, and padded to 16 rows so that the products run on tensor
cores.
"""

import torch
import triton
import triton.language as tl

from kernels.attention_metadata import AttentionMetadata
from kernels.gpu.attention_tile import fold_tile, load_tile


@triton.jit(do_not_specialize=["table_stride", "window"])
def decode_kernel(
    out_ptr, q_ptr, k_cache_ptr, v_cache_ptr, tables_ptr, seq_lens_ptr,
    q_stride, table_stride, window, scale_log2,
    BLOCK_SIZE: tl.constexpr, NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, DIM_TILE: tl.constexpr,
):  # fmt: skip
    seq = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    seq_len = tl.load(seq_lens_ptr + seq)
    table_ptr = tables_ptr + seq * table_stride

    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, DIM_TILE)
    q_live = (rows < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    head_at = (kv_head * GROUP + rows)[:, None] * HEAD_DIM + dims[None, :]
    q = tl.load(q_ptr + seq * q_stride + head_at, mask=q_live, other=0.0)

    peak = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, DIM_TILE], tl.float32)
    for start in range(tl.maximum(seq_len - window, 0), seq_len, TILE):
        positions = start + tl.arange(0, TILE)
        live = positions < seq_len
        k, v = load_tile(
            k_cache_ptr, v_cache_ptr, table_ptr, positions, live, kv_head,
            BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM, DIM_TILE,
        )  # fmt: skip
        peak, total, acc = fold_tile(peak, total, acc, q, k, v, live[None, :], scale_log2)

    # A padding row has folded nothing: 0 / 1.
    out = acc / tl.where(total > 0, total, 1.0)[:, None]
    out_row = seq * (NUM_KV_HEADS * GROUP * HEAD_DIM)
    tl.store(out_ptr + out_row + head_at, out, mask=q_live)


def launch_decode(
    out: torch.Tensor,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale_log2: float,
    window: int,
) -> None:
    """Fill the decodes' rows of `out`."""
    _, block_size, num_kv_heads, head_dim = k_cache.shape
    group = q.shape[1] // num_kv_heads
    dim_tile = max(16, triton.next_power_of_2(head_dim))
    decode_kernel[(metadata.num_decodes, num_kv_heads)](
        out, q, k_cache, v_cache, metadata.block_tables, metadata.seq_lens,
        q.stride(0), metadata.block_tables.stride(0), window, scale_log2,
        BLOCK_SIZE=block_size, NUM_KV_HEADS=num_kv_heads, GROUP=group, HEAD_DIM=head_dim,
        ROWS=max(16, triton.next_power_of_2(group)),
        # Half as many keys at a time where a tile of them would not stay in registers.
        TILE=64 if q.element_size() == 2 and dim_tile <= 128 else 32,
        DIM_TILE=dim_tile,
    )  # fmt: skip
