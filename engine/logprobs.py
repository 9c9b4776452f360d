"""The log-probabilities that clients ask for: the chosen token's, and the best tokens' beside it.

They are the model's own, before temperature, penalties, biases and grammars.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from engine.narrowing import best


class TokenLogprobs(NamedTuple):
    """logprob: the chosen token's; top: (token, logprob) of the best ones, the best first."""

    token_id: int
    logprob: float
    top: list[tuple[int, float]]


class Likelihoods:
    """The log-probabilities of some rows, taken before anything changes their logits.

    wanted: row -> how many of the best tokens to name
    """

    def __init__(self, logits: torch.Tensor, wanted: Mapping[int, int]) -> None:
        self._wanted = wanted
        rows = torch.tensor(list(wanted), device=logits.device)
        self._logprobs = torch.log_softmax(logits[rows].float(), dim=-1)

    def of(self, tokens: Sequence[int]) -> dict[int, TokenLogprobs]:
        """tokens: what was chosen in every row of the step.  Returns what its rows asked for."""
        ranked, found = best(self._logprobs, max(self._wanted.values()))
        chosen = torch.tensor([tokens[row] for row in self._wanted], device=self._logprobs.device)
        logprobs = self._logprobs.gather(1, chosen[:, None]).squeeze(1).tolist()
        ids, values = found.tolist(), ranked.tolist()
        return {
            row: TokenLogprobs(
                tokens[row],
                logprobs[place],
                list(zip(ids[place][:count], values[place][:count], strict=True)),
            )
            for place, (row, count) in enumerate(self._wanted.items())
        }
