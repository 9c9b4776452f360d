"""What one request's parameters do to the logits of its next token, step by step."""

from collections.abc import Sequence

import numpy as np

from engine.grammars import Grammars, GrammarState
from engine.logit_edits import Bias, Edits, Penalties
from engine.requests import SamplingParams
from engine.token_history import TokenHistory


class Shaping:
    """stop_ids: the tokens that end the completion, which `min_tokens` puts off.

    Nothing is compiled or counted before the first step of the request: it may wait for long.
    """

    def __init__(
        self, params: SamplingParams, *, num_prompt_tokens: int, stop_ids: frozenset[int]
    ) -> None:
        self._params = params
        self._num_prompt_tokens = num_prompt_tokens
        self._stop_ids = np.array(sorted(stop_ids), dtype=np.int64)
        self._bias = _bias(params)
        self._history: TokenHistory | None = None
        self._grammar: GrammarState | None = None

    def edits(self, token_ids: Sequence[int], grammars: Grammars) -> Edits:
        """For the token after `token_ids`.  Raises GrammarRefused."""
        num_output = len(token_ids) - self._num_prompt_tokens
        if self._params.grammar is not None and self._grammar is None:
            self._grammar = grammars.start(self._params.grammar)
        return Edits(
            penalties=self._penalties(token_ids),
            bias=self._bias,
            banned=self._stop_ids if num_output < self._params.min_tokens else None,
            allowed=self._grammar.allowed() if self._grammar else None,
        )

    def completes(self, token: int) -> bool:
        """Take the newest token.  Returns whether the grammar wants no more."""
        return self._grammar is not None and self._grammar.advance(token)

    def _penalties(self, token_ids: Sequence[int]) -> Penalties | None:
        params = self._params
        repeats = params.repetition_penalty != 1
        if not (repeats or params.presence_penalty or params.frequency_penalty):
            return None
        if self._history is None:
            start = self._num_prompt_tokens
            self._history = TokenHistory(start=start, counts_prompt=repeats)
        self._history.catch_up(token_ids)
        return Penalties(
            self._history.ids,
            self._history.said,
            params.repetition_penalty,
            params.presence_penalty,
            params.frequency_penalty,
        )


def shapes_logits(params: SamplingParams) -> bool:
    """Whether a request needs a Shaping at all; most do not."""
    return bool(
        params.grammar
        or params.logit_bias
        or params.min_tokens
        or params.repetition_penalty != 1
        or params.presence_penalty
        or params.frequency_penalty
    )


def _bias(params: SamplingParams) -> Bias | None:
    if not params.logit_bias:
        return None
    ids = np.fromiter(params.logit_bias.keys(), dtype=np.int64)
    return Bias(ids, np.fromiter(params.logit_bias.values(), dtype=np.float32))
