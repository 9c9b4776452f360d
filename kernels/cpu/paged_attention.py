"""Paged attention in batched products: no Python per decoding sequence, one call per chunk."""

import torch
from torch.nn import functional as F

from kernels.attention_metadata import AttentionMetadata
from kernels.cpu.attention_plan import Chunk, DecodeBucket, make_plan


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale: float,
) -> torch.Tensor:
    plan = metadata.once(
        (make_plan, k_cache.shape[1:], k_cache.dtype), lambda: make_plan(metadata, k_cache)
    )
    out = torch.zeros(q.shape, dtype=q.dtype)
    for bucket in plan.buckets:
        k = _gather(k_cache.flatten(0, 2), bucket.gather, plan.keys)
        v = _gather(v_cache.flatten(0, 2), bucket.gather, plan.values)
        out.index_copy_(0, bucket.rows, _decode(q[bucket.rows], k, v, bucket, scale=scale))
    for chunk in plan.chunks:
        k = _gather(k_cache.flatten(0, 1), chunk.gather, plan.keys)
        v = _gather(v_cache.flatten(0, 1), chunk.gather, plan.values)
        out[chunk.rows] = _prefill(q[chunk.rows], k, v, chunk, scale=scale)
    return out


def _gather(rows: torch.Tensor, index: torch.Tensor, scratch: torch.Tensor) -> torch.Tensor:
    shape = (len(index), *rows.shape[1:])
    out = scratch[: len(index) * rows[0].numel()].view(shape)
    return torch.index_select(rows, 0, index, out=out)


def _decode(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bucket: DecodeBucket, *, scale: float
) -> torch.Tensor:
    # One product per sequence and KV head; its rows are the heads that share that KV head.
    num_products, _, max_len = bucket.padding.shape
    grouped = q.float().view(num_products, -1, q.shape[2])
    keys = k.float().view(num_products, max_len, -1)
    values = v.float().view(num_products, max_len, -1)
    padding = bucket.padding.expand(-1, grouped.shape[1], -1)
    scores = torch.baddbmm(padding, grouped, keys.transpose(1, 2), alpha=scale)
    return torch.bmm(scores.softmax(dim=-1), values).view(q.shape).to(q.dtype)


def _prefill(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, chunk: Chunk, *, scale: float
) -> torch.Tensor:
    heads_first = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    out = F.scaled_dot_product_attention(
        *heads_first, attn_mask=chunk.visible, scale=scale, enable_gqa=True
    )
    return out[0].transpose(0, 1)
