"""Attention of chunks of several query rows.  They are few and large: one call for each."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch.nn import functional as F

from kernels.attention_metadata import AttentionMetadata
from kernels.cpu.pages import Pages, slots


@dataclass(frozen=True, slots=True)
class Chunk:
    """One sequence's chunk.

    rows:    its query rows
    slots:   [seq_len] int64, where its sequence's tokens lie
    visible: [len(rows), seq_len] bool, or None if every row sees every position
    """

    rows: slice
    slots: torch.Tensor
    visible: torch.Tensor | None


def plan_chunks(metadata: AttentionMetadata, *, block_size: int) -> list[Chunk]:
    bounds = pairwise(metadata.query_starts[metadata.num_decodes :].tolist())
    seq_lens = metadata.seq_lens[metadata.num_decodes :].tolist()
    tables = metadata.block_tables[metadata.num_decodes :]
    return [
        _plan_chunk(slice(start, end), seq_len, table, block_size)
        for (start, end), seq_len, table in zip(bounds, seq_lens, tables, strict=True)
        if seq_len
    ]


def _plan_chunk(rows: slice, seq_len: int, table: torch.Tensor, block_size: int) -> Chunk:
    positions = torch.arange(seq_len)
    own_position = positions[seq_len - (rows.stop - rows.start) :]
    visible = positions <= own_position.unsqueeze(1) if len(own_position) > 1 else None
    return Chunk(rows, slots(table.unsqueeze(0), positions.unsqueeze(0), block_size)[0], visible)


def attend_chunk(q: torch.Tensor, pages: Pages, chunk: Chunk, *, scale: float) -> torch.Tensor:
    """q: the chunk's rows, [n, num_heads, head_dim].  Returns the same shape."""
    k, v = pages.tokens(chunk.slots)
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=chunk.visible, scale=scale, enable_gqa=True
    )
    return out[0].transpose(0, 1)
