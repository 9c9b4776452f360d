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
    slots:   [num_keys] int64, where the tokens lie that any of the rows sees
    visible: [len(rows), num_keys] bool, or None if every row sees all of them
    """

    rows: slice
    slots: torch.Tensor
    visible: torch.Tensor | None


def plan_chunks(metadata: AttentionMetadata, *, block_size: int, window: int | None) -> list[Chunk]:
    bounds = pairwise(metadata.query_starts[metadata.num_decodes :].tolist())
    seq_lens = metadata.seq_lens[metadata.num_decodes :].tolist()
    tables = metadata.block_tables[metadata.num_decodes :]
    chunks = []
    for (start, end), seq_len, table in zip(bounds, seq_lens, tables, strict=True):
        if seq_len:
            keys, visible = _visible(end - start, seq_len, window)
            where = slots(table.unsqueeze(0), keys.unsqueeze(0), block_size)[0]
            chunks.append(Chunk(slice(start, end), where, visible))
    return chunks


def _visible(
    num_rows: int, seq_len: int, window: int | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The positions that any of a sequence's last rows sees, and which row sees which."""
    first_row = seq_len - num_rows
    positions = torch.arange(0 if window is None else max(first_row - window + 1, 0), seq_len)
    if num_rows == 1:
        return positions, None
    back = torch.arange(first_row, seq_len).unsqueeze(1) - positions
    return positions, back >= 0 if window is None else (back >= 0) & (back < window)


def attend_chunk(q: torch.Tensor, pages: Pages, chunk: Chunk, *, scale: float) -> torch.Tensor:
    """q: the chunk's rows, [n, num_heads, head_dim].  Returns the same shape."""
    k, v = pages.tokens(chunk.slots)
    lost = k[..., 0].isnan().any(dim=1)  # as `store_kv` marks them
    k[lost] = 0  # PyTorch hides what is not visible by adding -inf, which leaves NaN what it is
    q, k, v = (x.to(q.dtype).transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=chunk.visible, scale=scale, enable_gqa=True
    )
    sees_lost = lost.any() if chunk.visible is None else (chunk.visible & lost).any(dim=1)
    return out[0].transpose(0, 1).masked_fill_(sees_lost.view(-1, 1, 1), torch.nan)
