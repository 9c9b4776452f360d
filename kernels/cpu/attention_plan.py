"""What paged attention on a CPU can know before the first layer: gathers, masks, scratch.

Pages are gathered into contiguous scratch because PyTorch has no product over scattered rows.  The
scratch is made once a step and reused by every layer: to touch fresh memory costs ten times what
the gather itself does.

Decodes are cut into buckets of similar length, so that a long sequence does not pad the short ones;
each bucket is one batched product.  Chunks are few and large; each is a product of its own.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch

from kernels.attention_metadata import AttentionMetadata

# A bucket's shortest sequence is at least this part of its longest.
MIN_FILL = 0.75


@dataclass(frozen=True, slots=True)
class DecodeBucket:
    """Decodes of similar length, padded to the longest.

    rows:    [num_seqs] int64, which query row each is
    gather:  [num_seqs * kv_heads * max_len] int64 into a cache seen as rows of one head
    padding: [num_seqs * kv_heads, 1, max_len] fp32, 0 or -inf, added to the scores
    """

    rows: torch.Tensor
    gather: torch.Tensor
    padding: torch.Tensor


@dataclass(frozen=True, slots=True)
class Chunk:
    """One sequence's chunk.

    rows:    its query rows
    gather:  [seq_len] int64 into a cache seen as rows of one token
    visible: [len(rows), seq_len] bool, or None if every row sees every position
    """

    rows: slice
    gather: torch.Tensor
    visible: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """keys, values: scratch for the largest gather, flat, in the cache's dtype."""

    buckets: list[DecodeBucket]
    chunks: list[Chunk]
    keys: torch.Tensor
    values: torch.Tensor


def make_plan(metadata: AttentionMetadata, cache: torch.Tensor) -> AttentionPlan:
    _, block_size, kv_heads, head_dim = cache.shape
    buckets = [
        _decode_bucket(metadata, seqs, block_size, kv_heads)
        for seqs in similar_lengths(metadata.seq_lens[: metadata.num_decodes].tolist())
    ]
    chunks = _chunks(metadata, block_size)
    sizes = [bucket.gather.numel() * head_dim for bucket in buckets]
    sizes += [chunk.gather.numel() * kv_heads * head_dim for chunk in chunks]
    size = max(sizes, default=0)
    keys, values = (torch.empty(size, dtype=cache.dtype) for _ in range(2))
    return AttentionPlan(buckets, chunks, keys, values)


def similar_lengths(seq_lens: list[int]) -> list[list[int]]:
    """Cut the sequences that are not padding into buckets, the longest first."""
    longest_first = sorted(
        (seq for seq, length in enumerate(seq_lens) if length), key=lambda seq: -seq_lens[seq]
    )
    buckets: list[list[int]] = []
    for seq in longest_first:
        if not buckets or seq_lens[seq] < MIN_FILL * seq_lens[buckets[-1][0]]:
            buckets.append([])
        buckets[-1].append(seq)
    return buckets


def _decode_bucket(
    metadata: AttentionMetadata, seqs: list[int], block_size: int, kv_heads: int
) -> DecodeBucket:
    rows = torch.tensor(seqs)
    seq_lens = metadata.seq_lens[rows].unsqueeze(1)
    positions = torch.arange(int(seq_lens.max()))
    # Padding repeats the last token: a row that holds a number, whose weight is exactly zero.
    slots = _slots(metadata.block_tables[rows], positions.minimum(seq_lens - 1), block_size)
    heads = torch.arange(kv_heads).view(1, kv_heads, 1)
    padding = torch.zeros(len(seqs), len(positions))
    padding.masked_fill_(positions >= seq_lens, float("-inf"))
    return DecodeBucket(
        rows=rows,
        gather=(slots.unsqueeze(1) * kv_heads + heads).flatten(),
        padding=padding.repeat_interleave(kv_heads, dim=0).unsqueeze(1),
    )


def _chunks(metadata: AttentionMetadata, block_size: int) -> list[Chunk]:
    bounds = pairwise(metadata.query_starts[metadata.num_decodes :].tolist())
    seq_lens = metadata.seq_lens[metadata.num_decodes :].tolist()
    tables = metadata.block_tables[metadata.num_decodes :]
    return [
        _chunk(slice(start, end), seq_len, table, block_size)
        for (start, end), seq_len, table in zip(bounds, seq_lens, tables, strict=True)
        if seq_len
    ]


def _chunk(rows: slice, seq_len: int, table: torch.Tensor, block_size: int) -> Chunk:
    positions = torch.arange(seq_len)
    own_position = positions[seq_len - (rows.stop - rows.start) :]
    visible = positions <= own_position.unsqueeze(1) if len(own_position) > 1 else None
    slots = _slots(table.unsqueeze(0), positions.unsqueeze(0), block_size)
    return Chunk(rows, slots[0], visible)


def _slots(tables: torch.Tensor, positions: torch.Tensor, block_size: int) -> torch.Tensor:
    """Where each position [seqs, n] of each sequence lies: block * block_size + offset."""
    blocks = tables.long().gather(1, positions // block_size)
    return blocks * block_size + positions % block_size
