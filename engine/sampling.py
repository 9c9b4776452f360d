"""Chooses the next token of every sequence of a step at once.

Randomness is counter-based: the number that decides a token is a hash of the request's seed and the
token's position, so it does not depend on what else is in the step, nor on how often the sequence
was preempted.  It is used on the cumulative distribution, one number a token.
"""

from typing import NamedTuple

import torch

from engine.logit_edits import Edits, apply_edits
from engine.logprobs import Likelihoods, TokenLogprobs
from engine.narrowing import Limits, narrow

GREEDY_BELOW = 1e-5  # a temperature this low is greedy in fp32
SPAN = 256  # tokens that are summed up as one at first
BEST_SPAN = 128  # tokens that are looked at as one, for the best: divides most vocabularies
NO_TOKEN = -1  # where a row's logits are no numbers


class Draw(NamedTuple):
    """How to choose one token.

    position: its index in the sequence; top_k: 0 keeps all; logprobs: how many alternatives to
    name beside the chosen one's log-probability, None for none of it
    """

    temperature: float
    top_p: float
    top_k: int
    seed: int
    position: int
    min_p: float = 0.0
    logprobs: int | None = None
    edits: Edits | None = None

    @property
    def is_narrowed(self) -> bool:
        """Whether not every token may be drawn, but for edits."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


GREEDY = Draw(temperature=0, top_p=1, top_k=0, seed=0, position=0)


class Drawn(NamedTuple):
    """One token for each row, and the log-probabilities of the rows that asked for them.

    broken: the rows whose logits are no numbers; the token there says nothing
    """

    tokens: list[int]
    logprobs: dict[int, TokenLogprobs]
    broken: list[int]


def draw_tokens(logits: torch.Tensor, draws: list[Draw]) -> Drawn:
    """logits: [num_rows, vocab_size]; they may be changed."""
    wanted = {row: draw.logprobs for row, draw in enumerate(draws) if draw.logprobs is not None}
    likelihoods = Likelihoods(logits, wanted) if wanted else None
    tokens: list[int] = sample(logits, draws).tolist()
    broken = [row for row, token in enumerate(tokens) if token == NO_TOKEN]
    for row in broken:
        tokens[row] = 0
    return Drawn(tokens, likelihoods.of(tokens) if likelihoods else {}, broken)


def sample(logits: torch.Tensor, draws: list[Draw]) -> torch.Tensor:
    """Return one token id per row, [num_rows] int64; NO_TOKEN where NaN or inf is among its logits.

    -inf may be among them: a token that cannot be drawn.
    logits: [num_rows, vocab_size]; those of rows with edits are changed
    """
    apply_edits(
        logits, {row: draw.edits for row, draw in enumerate(draws) if draw.edits is not None}
    )
    greedy, random = _split(draws)
    if not random:
        return best_tokens(logits)
    if not greedy:
        return _draw(logits, draws)
    tokens = torch.empty(len(draws), dtype=torch.int64, device=logits.device)
    rows = torch.tensor(greedy, device=logits.device)
    tokens[rows] = best_tokens(logits[rows])
    rows = torch.tensor(random, device=logits.device)
    tokens[rows] = _draw(logits[rows], [draws[row] for row in random])
    return tokens


def best_tokens(logits: torch.Tensor) -> torch.Tensor:
    """The first of each row's best tokens, [num_rows] int64; as `sample` where there is none.

    On a CPU to find the best is ten times as fast as to find where it stands: so that is done for
    spans at first, and then within one.
    """
    num_rows, vocab_size = logits.shape
    if logits.device.type != "cpu" or vocab_size % BEST_SPAN:
        tokens = logits.argmax(dim=-1)
    else:
        spans = logits.view(num_rows, -1, BEST_SPAN)
        span = spans.amax(dim=-1).argmax(dim=-1)
        tokens = span * BEST_SPAN + spans[torch.arange(num_rows), span].argmax(dim=-1)
    return _unless_broken(tokens, logits.gather(1, tokens[:, None]))


def _unless_broken(tokens: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """best: [num_rows, 1], the best logit of each row: NaN is taken for better than any number."""
    return tokens.masked_fill_(~(best < torch.inf).squeeze(1), NO_TOKEN)


def _split(draws: list[Draw]) -> tuple[list[int], list[int]]:
    """The rows that take the best token, and those that draw one."""
    greedy = [row for row, draw in enumerate(draws) if draw.temperature < GREEDY_BELOW]
    random = [row for row, draw in enumerate(draws) if draw.temperature >= GREEDY_BELOW]
    return greedy, random


def _draw(logits: torch.Tensor, draws: list[Draw]) -> torch.Tensor:
    device = logits.device
    shares, best = uniform(draws, device), logits.amax(dim=-1, keepdim=True)
    temperatures = torch.tensor([draw.temperature for draw in draws], device=device)
    weights = _weights(logits, best, temperatures)
    sums = weights.view(len(draws), -1, SPAN).sum(dim=-1).double().cumsum(dim=-1)
    tokens = _pick(weights, sums, shares)
    narrowed = [row for row, draw in enumerate(draws) if draw.is_narrowed]
    if narrowed:
        rows = torch.tensor(narrowed, device=device)
        some = weights if len(rows) == len(draws) else weights[rows]
        for kept in narrow(some, _limits([draws[row] for row in narrowed], device), sums[rows, -1]):
            those = rows[kept.rows]
            reached = kept.weights.cumsum(dim=-1)
            place, _ = _find(reached, shares[those] * reached[:, -1])
            tokens[those] = kept.ids.gather(1, place[:, None]).squeeze(1)
    return _unless_broken(tokens.clamp_(max=logits.shape[1] - 1), best)


def _weights(logits: torch.Tensor, best: torch.Tensor, temperatures: torch.Tensor) -> torch.Tensor:
    """How likely each token is, beside the best one's 1: [num_rows, whole spans] fp32.

    Beyond the vocabulary there is nothing.
    """
    num_rows, vocab_size = logits.shape
    logits = logits.float()
    weights = logits.new_empty((num_rows, -(-vocab_size // SPAN) * SPAN))
    weights[:, vocab_size:] = -torch.inf
    torch.sub(logits, best, out=weights[:, :vocab_size])
    return weights.div_(temperatures[:, None]).exp_()


def _limits(draws: list[Draw], device: torch.device) -> Limits:
    whole = 2**31  # no vocabulary has as many tokens
    return Limits(
        torch.tensor([min(draw.top_k, whole) for draw in draws], device=device),
        torch.tensor([draw.top_p for draw in draws], device=device, dtype=torch.float64),
        torch.tensor([draw.min_p for draw in draws], device=device, dtype=torch.float32),
    )


def _pick(weights: torch.Tensor, sums: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """The token in which each row's share, of 0 to 1, of all its weight lies: [num_rows] int64.

    First among spans of the vocabulary, whose sums add up to `sums`, then within one: summing all
    of it up is not needed.
    """
    rows = torch.arange(len(weights), device=weights.device)
    span, rest = _find(sums, shares * sums[:, -1])
    inner = weights.view(len(weights), -1, SPAN)[rows, span].double().cumsum(dim=-1)
    place, _ = _find(inner, rest)
    return span * SPAN + place


def _find(sums: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first entry of each row beyond its target, and how far beyond the one before that is.

    sums: [num_rows, n], not falling; a target that rounding put at a row's end is put before it
    """
    targets = torch.minimum(targets, sums[:, -1] * (1 - 2.0**-52))
    found = torch.searchsorted(sums, targets[:, None], right=True).clamp_(max=sums.shape[-1] - 1)
    before = sums.gather(1, (found - 1).clamp_(min=0)).masked_fill(found == 0, 0)
    return found.squeeze(1), targets - before.squeeze(1)


def uniform(draws: list[Draw], device: torch.device) -> torch.Tensor:
    """[num_rows] fp64 in [0, 1), from each row's seed and position alone."""
    seeds = torch.tensor([_signed(draw.seed) for draw in draws], device=device)
    positions = torch.tensor([draw.position for draw in draws], device=device)
    bits = _mix(_mix(seeds) + positions * _GOLDEN)
    return _shift_right(bits, 11).double() * 2.0**-53


def _signed(value: int) -> int:
    """The int64 with the same low 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


_GOLDEN = _signed(0x9E3779B97F4A7C15)


def _mix(bits: torch.Tensor) -> torch.Tensor:
    """Spread every bit over all 64; products wrap around.

    Source: Steele, Lea & Flood 2014, doi:10.1145/2714064.2660195 (SplitMix64).
    """
    bits = bits + _GOLDEN
    bits = (bits ^ _shift_right(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shift_right(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Shift zeros in from the left, as if the int64 had no sign."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
