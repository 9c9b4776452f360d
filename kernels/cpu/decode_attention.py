"""Attention of one query row per sequence, as few and as large products as the step allows."""

import torch

from kernels.cpu.decode_plan import DecodePlan, PrefixGroup, TailBucket
from kernels.cpu.pages import Pages


def attend_decodes(
    q: torch.Tensor, pages: Pages, plan: DecodePlan, *, scale: float
) -> torch.Tensor:
    """q: [num_decodes, num_heads, head_dim] fp32.  Returns the same shape."""
    out = torch.zeros(q.shape, dtype=torch.float32)
    log_total = torch.zeros(q.shape[:2], dtype=torch.float32)
    for bucket in plan.buckets:
        tail, log_tail = _attend_tails(q[bucket.rows], pages, bucket, scale=scale)
        out.index_copy_(0, bucket.rows, tail)
        log_total.index_copy_(0, bucket.rows, log_tail)
    for group in plan.groups:
        prefix, log_prefix = _attend_prefix(q[group.rows], pages, group, scale=scale)
        # Two softmaxes over disjoint keys merge by the share that each has of the whole.
        share = torch.sigmoid(log_prefix - log_total[group.rows]).unsqueeze(-1)
        out.index_copy_(0, group.rows, torch.lerp(out[group.rows], prefix, share))
    return out


def _attend_tails(
    q: torch.Tensor, pages: Pages, bucket: TailBucket, *, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    # One product per sequence and KV head; its rows are the heads that share that KV head.
    num_products, _, max_len = bucket.padding.shape
    q_rows = q.reshape(num_products, -1, q.shape[2])
    k, v = (x.float().view(num_products, max_len, -1) for x in pages.heads(bucket.heads))
    out, log_total = _attend(q_rows, k, v, bucket.padding, scale=scale)
    return out.view(q.shape), log_total.view(q.shape[:2])


def _attend_prefix(
    q: torch.Tensor, pages: Pages, group: PrefixGroup, *, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    # One product per KV head; its rows are the sharing heads of every sequence of the group.
    k, v = (x.float().transpose(0, 1) for x in pages.tokens(group.slots))
    by_kv_head = q.view(len(q), len(k), -1, q.shape[2]).transpose(
        0, 1
    )  # [kv_heads, seqs, sharing, d]
    out, log_total = _attend(by_kv_head.flatten(1, 2), k, v, torch.zeros(1, 1, 1), scale=scale)
    return (
        out.view(by_kv_head.shape).transpose(0, 1).reshape(q.shape),
        log_total.view(by_kv_head.shape[:3]).transpose(0, 1).reshape(q.shape[:2]),
    )


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, padding: torch.Tensor, *, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Batched attention of q [n, rows, d] over k and v [n, keys, d].

    Returns [n, rows, d], and the logarithm [n, rows] of the softmax's denominator.
    """
    scores = torch.baddbmm(
        padding.expand(len(q), q.shape[1], k.shape[1]), q, k.transpose(1, 2), alpha=scale
    )
    peak = scores.amax(dim=-1, keepdim=True)
    weights = scores.sub_(peak).exp_()
    total = weights.sum(dim=-1, keepdim=True)
    out = torch.bmm(weights, v).div_(total)
    return out, (peak + total.log()).squeeze(-1)
