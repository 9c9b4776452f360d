"""Drops the tokens outside top_k, top_p and min_p, without sorting the vocabulary.

What is kept stands among the best few: only those are ranked, more of them for the rows whose
weights are spread wide, and all for those alone that need all.  How many a row needs is its own
affair, so that its neighbours change nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch

FEW = (128, 1024, 16_384)  # best tokens that are ranked, until they are enough
SPAN = 32  # tokens that are looked at as one at first, to find the best


class Limits(NamedTuple):
    """[num_rows] each: top_k int64, 0 for all; top_p fp64; min_p fp32, of the best weight."""

    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor

    def of(self, rows: torch.Tensor) -> "Limits":
        return Limits(*(limit[rows] for limit in self))


class Kept(NamedTuple):
    """rows: [n]; ids: [n, count], rising, among which is what is kept; weights: [n, count] fp64, 0
    for what is not."""

    rows: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor


def narrow(weights: torch.Tensor, limits: Limits, totals: torch.Tensor) -> Iterator[Kept]:
    """What is kept of each row, in groups.  Ties stay together.

    First min_p, then top_k, and top_p of what they leave.
    weights: [num_rows, vocab_size], not negative; totals: [num_rows] fp64, their sums
    """
    vocab_size = weights.shape[1]
    rows = torch.arange(len(weights), device=weights.device)
    for count in (*(few for few in FEW if few < vocab_size), vocab_size):
        left = weights if len(rows) == len(weights) else weights[rows]
        ranked, ids = best(left, count)
        least, enough = _least_kept(
            ranked, limits.of(rows), totals[rows], everything=count == vocab_size
        )
        yield _kept(rows[enough], ids[enough], ranked[enough], least[enough])
        rows = rows[~enough]
        if not len(rows):
            return


def best(weights: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The best `count` weights of each row, the best first, and their tokens.

    Where they are few, they are sought in those spans alone whose best are best.
    """
    num_rows, vocab_size = weights.shape
    if 4 * count * SPAN > vocab_size or vocab_size % SPAN:
        return weights.topk(count, dim=-1)
    spans = weights.view(num_rows, -1, SPAN)
    places = spans.amax(dim=-1).topk(count, dim=-1, sorted=False).indices
    candidates = spans.gather(1, places[:, :, None].expand(-1, -1, SPAN)).flatten(1)
    ranked, found = candidates.topk(count, dim=-1)
    return ranked, places.gather(1, found // SPAN) * SPAN + found % SPAN


def _least_kept(
    ranked: torch.Tensor, limits: Limits, totals: torch.Tensor, *, everything: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The least weight that is kept, and whether `ranked` has all that are no less.

    everything: whether it has the whole vocabulary
    """
    count, last = ranked.shape[1], ranked[:, -1]
    floor = limits.min_p * ranked[:, 0]
    places = torch.arange(count, device=ranked.device)
    within = (limits.top_k[:, None] == 0) | (places < limits.top_k[:, None])
    within &= (ranked >= floor[:, None]) & (ranked > 0)
    weights = ranked.double().masked_fill(~within, 0)
    reached = weights.cumsum(dim=-1)
    # Whether nothing beyond those that are ranked is within top_k and min_p.
    bounded = (limits.top_k > 0) & (limits.top_k <= count) | (last < floor) | everything
    wanted = limits.top_p * torch.where(bounded, reached[:, -1], totals)
    kept = within & (reached - weights < wanted[:, None])
    least = ranked.masked_fill(~kept, torch.inf).amin(dim=-1)
    enough = bounded | ((limits.top_k == 0) & (floor == 0) & (reached[:, -1] >= wanted))
    return least, enough & ((last < least) | everything)


def _kept(rows: torch.Tensor, ids: torch.Tensor, ranked: torch.Tensor, least: torch.Tensor) -> Kept:
    """In the order of the vocabulary, so that it does not matter how ties were ranked."""
    ids, order = ids.sort(dim=-1)
    weights = ranked.gather(1, order)
    return Kept(rows, ids, weights.double().masked_fill(weights < least[:, None], 0))
