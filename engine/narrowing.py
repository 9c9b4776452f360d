"""Drops the tokens outside top_k and top_p, without sorting the vocabulary.

The least weight that is kept decides, and it stands among the best few: only those are ranked, more
of them for the rows whose weights are spread wide, and all for those alone that need all.  How many
a row needs is its own affair, so that its neighbours change nothing.
"""

from collections.abc import Iterator, Sequence

import torch

FEW = (64, 1024, 16_384)  # best tokens that are ranked, until they are enough


def narrow(weights: torch.Tensor, top_k: Sequence[int], top_p: Sequence[float]) -> torch.Tensor:
    """Zero what is outside top_k, and of the rest what is outside top_p.  Ties stay together.

    weights: [num_rows, vocab_size], not negative; top_k: 0 keeps all
    """
    device, vocab_size = weights.device, weights.shape[-1]
    limits = torch.tensor([min(k, vocab_size) or vocab_size for k in top_k], device=device)
    shares = torch.tensor(top_p, device=device, dtype=torch.float64)
    least = torch.zeros(len(weights), device=device, dtype=weights.dtype)
    rows = torch.arange(len(weights), device=device)
    for count in _counts(vocab_size):
        ranked = weights[rows].topk(count, dim=-1).values
        totals = _totals(weights[rows], ranked, limits[rows])
        found, reaches = _least_kept(ranked, limits[rows], shares[rows] * totals)
        enough = (limits[rows] <= count) | ((limits[rows] == vocab_size) & reaches)
        enough |= count == vocab_size
        least[rows[enough]] = found[enough]
        rows = rows[~enough]
        if not len(rows):
            break
    return weights.masked_fill(weights < least[:, None], 0)


def _counts(vocab_size: int) -> Iterator[int]:
    yield from (count for count in FEW if count < vocab_size)
    yield vocab_size


def _totals(weights: torch.Tensor, ranked: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
    """[num_rows] fp64: all that top_k keeps; too little where `ranked` has fewer."""
    everything = weights.sum(dim=-1, dtype=torch.float64)
    best = _within(ranked, limits).sum(dim=-1)
    return torch.where(limits < weights.shape[-1], best, everything)


def _within(ranked: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
    """In fp64, with zeros from each row's limit on."""
    places = torch.arange(ranked.shape[-1], device=ranked.device)
    return ranked.double().masked_fill(places >= limits[:, None], 0)


def _least_kept(
    ranked: torch.Tensor, limits: torch.Tensor, wanted: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The least weight among the fewest that reach `wanted`, and whether they do."""
    within = _within(ranked, limits)
    reached = within.cumsum(dim=-1)
    kept = (reached - within < wanted[:, None]) & (within > 0)
    least = ranked.masked_fill(~kept, torch.inf).amin(dim=-1)
    return least, reached[:, -1] >= wanted
