"""How the decodes of a step are cut into batched products.

What a decode shares with others of the step is read once for all of them (`PrefixGroup`); the rest,
its tail, is its own.  Tails are cut into buckets of similar length, so that a long one does not pad
the short ones (`TailBucket`).  Each group and each bucket is one product.

Under a window nothing is shared: what two decodes have in common, each sees from another token on.
All that a decode sees is then its tail.
"""

from dataclasses import dataclass

import torch

from kernels.attention_metadata import AttentionMetadata
from kernels.cpu.pages import slots
from kernels.cpu.shared_prefix import SharedPrefix, shared_prefixes

# One product more costs about as much time as gathering so many tokens.
WORTH_A_PRODUCT = 512


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Decodes that share their first tokens.

    rows: [num_seqs] int64, which query row each is
    slots: [num_tokens] int64, where the shared tokens lie
    """

    rows: torch.Tensor
    slots: torch.Tensor


@dataclass(frozen=True, slots=True)
class TailBucket:
    """Decodes whose tails are of similar length, padded to the longest.

    rows:    [num_seqs] int64, which query row each is
    heads:   [num_seqs * kv_heads * max_len] int64, slot * kv_heads + head
    padding: [num_seqs * kv_heads, 1, max_len] fp32, 0 or -inf, added to the scores
    """

    rows: torch.Tensor
    heads: torch.Tensor
    padding: torch.Tensor


@dataclass(frozen=True, slots=True)
class DecodePlan:
    groups: list[PrefixGroup]
    buckets: list[TailBucket]

    def num_gathered(self, kv_heads: int) -> int:
        """The largest gather, in tokens."""
        parts = [len(group.slots) for group in self.groups]
        return max(parts + [len(bucket.heads) // kv_heads for bucket in self.buckets], default=0)


def plan_decodes(
    metadata: AttentionMetadata, *, block_size: int, kv_heads: int, window: int | None
) -> DecodePlan:
    tables = metadata.block_tables[: metadata.num_decodes]
    seq_lens = metadata.seq_lens[: metadata.num_decodes].long()
    groups, tail_starts = [], torch.zeros_like(seq_lens)
    prefixes = worthwhile_prefixes(tables, seq_lens, block_size) if window is None else []
    if window is not None:
        tail_starts = (seq_lens - window).clamp(min=0)
    for prefix in prefixes:
        shared = torch.arange(prefix.num_blocks * block_size).unsqueeze(0)
        rows = torch.tensor(prefix.seqs)
        groups.append(PrefixGroup(rows, slots(tables[rows[:1]], shared, block_size)[0]))
        tail_starts[rows] = shared.shape[1]
    buckets = []
    for seqs in similar_lengths((seq_lens - tail_starts).tolist()):
        rows = torch.tensor(seqs)
        positions, padding = _tail_positions(tail_starts[rows], seq_lens[rows])
        heads = slots(tables[rows], positions, block_size).unsqueeze(1) * kv_heads
        heads = heads + torch.arange(kv_heads).view(1, kv_heads, 1)
        padding = padding.repeat_interleave(kv_heads, dim=0).unsqueeze(1)
        buckets.append(TailBucket(rows, heads.flatten(), padding))
    return DecodePlan(groups, buckets)


def worthwhile_prefixes(
    tables: torch.Tensor, seq_lens: torch.Tensor, block_size: int
) -> list[SharedPrefix]:
    """The shared prefixes that save more time than their products cost."""
    # The last token stays out, so that no tail is empty.
    num_full = ((seq_lens - 1).clamp(min=0) // block_size).tolist()
    sharable = [row[:n] for row, n in zip(tables.tolist(), num_full, strict=True)]
    return [
        prefix
        for prefix in shared_prefixes(sharable)
        if prefix.saved_blocks * block_size >= WORTH_A_PRODUCT
    ]


def similar_lengths(lengths: list[int]) -> list[list[int]]:
    """Cut the sequences into buckets, longest first, by their lengths; drop those of length 0.

    A bucket ends where one member more would bring its padding above WORTH_A_PRODUCT.
    """
    longest_first = sorted(range(len(lengths)), key=lambda seq: -lengths[seq])
    buckets: list[list[int]] = []
    padded = WORTH_A_PRODUCT
    for seq in longest_first:
        if lengths[seq] == 0:
            break
        if buckets:
            padded += lengths[buckets[-1][0]] - lengths[seq]
        if not buckets or padded > WORTH_A_PRODUCT:
            buckets.append([])
            padded = 0
        buckets[-1].append(seq)
    return buckets


def _tail_positions(starts: torch.Tensor, ends: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[seqs, longest]: the positions of each tail, and -inf where it is padded."""
    positions = starts.unsqueeze(1) + torch.arange(int((ends - starts).max()))
    last = ends.unsqueeze(1) - 1
    padding = torch.zeros(positions.shape).masked_fill_(positions > last, float("-inf"))
    # Padding repeats the last token: a row that holds numbers, whose weight is exactly zero.
    return positions.minimum(last), padding
