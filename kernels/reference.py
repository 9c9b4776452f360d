"""What each op computes, in the plainest PyTorch we can write: the specification.

Obviously right and slow.  Arithmetic is in fp32, or in fp64 for fp64 arguments, and results are
rounded once to the dtype of the first argument.  Nothing but tests calls this.
"""

import math

import torch

from kernels.attention_metadata import AttentionMetadata


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    mean_square = _wide(x).square().mean(dim=-1, keepdim=True)
    return (_wide(x) / torch.sqrt(mean_square + eps) * _wide(weight)).to(x.dtype)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    total = _wide(x) + _wide(residual)
    normed = rms_norm(total, _wide(weight), eps)
    return normed.to(x.dtype), total.to(x.dtype)


def rotary_embedding(
    q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = cos_sin[positions].unsqueeze(1).chunk(2, dim=-1)  # [tokens, 1, head_dim / 2]

    def rotate(x: torch.Tensor) -> torch.Tensor:
        left, right = _wide(x).chunk(2, dim=-1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1).to(x.dtype)

    return rotate(q), rotate(k)


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = _wide(gate_up).chunk(2, dim=-1)
    return (gate * torch.sigmoid(gate) * up).to(gate_up.dtype)


def gelu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = _wide(gate_up).chunk(2, dim=-1)
    tanh = torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))
    return (gate / 2 * (1 + tanh) * up).to(gate_up.dtype)


def store_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    block_size = k_cache.shape[1]
    for token, slot in enumerate(slot_mapping.tolist()):
        if slot >= 0:
            k_cache[slot // block_size, slot % block_size] = k[token]
            v_cache[slot // block_size, slot % block_size] = v[token]


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    metadata: AttentionMetadata,
    *,
    scale: float,
    window: int | None = None,
    compute_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """`compute_dtype` is for the plain formula in a narrow dtype, against which errors are held."""
    compute_dtype = compute_dtype or _wide(q).dtype
    out = torch.zeros_like(q)
    starts = metadata.query_starts.tolist()
    for seq, seq_len in enumerate(metadata.seq_lens.tolist()):
        if seq_len == 0:
            continue
        rows = slice(starts[seq], starts[seq + 1])
        table = metadata.block_tables[seq]
        qkv = q[rows], _cached(k_cache, table, seq_len), _cached(v_cache, table, seq_len)
        q_rows, k, v = (x.to(compute_dtype) for x in qkv)
        out[rows] = causal_attention(q_rows, k, v, scale=scale, window=window).to(q.dtype)
    return out


def _cached(cache: torch.Tensor, block_table: torch.Tensor, seq_len: int) -> torch.Tensor:
    """The first `seq_len` rows of one sequence's blocks: [seq_len, kv_heads, head_dim]."""
    num_blocks = -(-seq_len // cache.shape[1])
    return cache[block_table[:num_blocks].long()].flatten(0, 1)[:seq_len]


def causal_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    window: int | None = None,
) -> torch.Tensor:
    """Attention of one sequence's last len(q) tokens over all of its len(k), in their dtype.

    window: the last so many tokens up to a row's own are all that it sees
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * scale
    own_position = torch.arange(len(k) - len(q), len(k), device=q.device)
    back = own_position[:, None] - torch.arange(len(k), device=q.device)
    hidden = back < 0 if window is None else (back < 0) | (back >= window)
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
    return torch.einsum("hqk,khd->qhd", weights, v)
