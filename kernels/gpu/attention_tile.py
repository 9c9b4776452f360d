"""The online softmax that all attention kernels share: keys are folded into it a tile at a time,
and so is what another program has found for other keys of the same row (a part).

By powers of two: scores come multiplied by log2(e), and what is called lse is log2 of a row's sum
of exponentials.  A row that has seen nothing has a peak and an lse of -inf and a total of 0.
"""

import triton
import triton.language as tl


@triton.jit
def load_tile(
    k_cache_ptr, v_cache_ptr, table_ptr, positions, live, kv_head,
    BLOCK_SIZE: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    DIM_TILE: tl.constexpr,
):  # fmt: skip
    """K and V [tile, DIM_TILE] of one KV head at these positions of a sequence, 0 where not live.

    The table is looked up per position, so a tile may be larger or smaller than a block.
    """
    dims = tl.arange(0, DIM_TILE)
    block = tl.load(table_ptr + positions // BLOCK_SIZE, mask=live, other=0).to(tl.int64)
    slot = block * BLOCK_SIZE + positions % BLOCK_SIZE
    at = ((slot * NUM_KV_HEADS + kv_head) * HEAD_DIM)[:, None] + dims[None, :]
    mask = live[:, None] & (dims < HEAD_DIM)[None, :]
    k = tl.load(k_cache_ptr + at, mask=mask, other=0.0)
    v = tl.load(v_cache_ptr + at, mask=mask, other=0.0)
    return k, v


@triton.jit
def fold_tile(peak, total, acc, q, k, v, visible, scale_log2):
    """Fold one tile into the running softmax: its peak, its total, and the weighted values.

    Rows of q [M, D] against k and v [N, D]; `visible` [M, N] or [1, N].
    """
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2
    scores = tl.where(visible, scores, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(scores, axis=1))
    finite = tl.where(new_peak == float("-inf"), 0.0, new_peak)  # -inf - -inf would be NaN
    weights = tl.exp2(scores - finite[:, None])
    shrink = tl.exp2(peak - finite)
    total = total * shrink + tl.sum(weights, axis=1)
    acc = acc * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    return new_peak, total, acc


@triton.jit
def fold_keys(
    peak, total, acc, q, own_positions, first, end, window,
    k_cache_ptr, v_cache_ptr, table_ptr, kv_head, scale_log2,
    CAUSAL: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    TILE: tl.constexpr, DIM_TILE: tl.constexpr,
):  # fmt: skip
    """Fold the keys `first` to `end` of one sequence and KV head into the running softmax.

    CAUSAL: a row sees the last `window` keys up to its own position; otherwise all of them.
    """
    for start in range(first, end, TILE):
        positions = start + tl.arange(0, TILE)
        live = positions < end
        k, v = load_tile(
            k_cache_ptr, v_cache_ptr, table_ptr, positions, live, kv_head,
            BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM, DIM_TILE,
        )  # fmt: skip
        visible = live[None, :]
        if CAUSAL:
            back = own_positions[:, None] - positions[None, :]
            visible = visible & (back >= 0) & (back < window)
        peak, total, acc = fold_tile(peak, total, acc, q, k, v, visible, scale_log2)
    return peak, total, acc


@triton.jit
def fold_parts(
    peak, total, acc, row_live, heads, token_rows, num_parts,
    part_out_ptr, part_lse_ptr, row_starts_ptr,
    NUM_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, DIM_TILE: tl.constexpr,
):  # fmt: skip
    """Fold what was found for other keys of these rows, in order: a part is its rows' normalised
    output and lse, as if one key had that value and that score.  That is the exact merge of
    Juravsky et al. 2024, arXiv:2402.05099, eq. 5.

    num_parts: how many each row has; token_rows: the rows of q
    """
    dims = tl.arange(0, DIM_TILE)
    mask = row_live[:, None] & (dims < HEAD_DIM)[None, :]
    slots = tl.load(row_starts_ptr + token_rows, mask=row_live, other=0).to(tl.int64)
    for part in range(num_parts):
        at = (slots + part) * NUM_HEADS + heads
        lse = tl.load(part_lse_ptr + at, mask=row_live, other=float("-inf"))
        out = tl.load(part_out_ptr + at[:, None] * HEAD_DIM + dims[None, :], mask=mask, other=0.0)
        new_peak = tl.maximum(peak, lse)
        finite = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        shrink, weight = tl.exp2(peak - finite), tl.exp2(lse - finite)
        total = total * shrink + weight
        acc = acc * shrink[:, None] + out * weight[:, None]
        peak = new_peak
    return peak, total, acc
