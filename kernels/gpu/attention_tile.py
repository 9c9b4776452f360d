"""The two steps that both attention kernels take for every tile of keys: load it, fold it in."""

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

    Rows of q [M, D] against k and v [N, D]; `visible` [M, N].  By powers of two: the scale holds
    the factor log2(e).  A row that a window has let see nothing yet keeps a
    peak of -inf and a total of 0.
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
