"""Which tokens a sequence has had, and how often it said each: what penalties are about.

Grows by one token a step; reading it costs no more than the different tokens in it.
"""

from collections.abc import Sequence

import numpy as np

_FIRST_CAPACITY = 64


class TokenHistory:
    """`said` counts only from `start` on: the tokens before it are seen, not said."""

    def __init__(self, *, start: int, counts_prompt: bool) -> None:
        self._start = start
        self._next = 0 if counts_prompt else start
        self._places: dict[int, int] = {}
        self._ids = np.empty(_FIRST_CAPACITY, dtype=np.int64)
        self._said = np.zeros(_FIRST_CAPACITY, dtype=np.float32)

    @property
    def ids(self) -> np.ndarray:
        """The different tokens, [num_ids] int64."""
        return self._ids[: len(self._places)]

    @property
    def said(self) -> np.ndarray:
        """How often each of `ids` was said, [num_ids] fp32."""
        return self._said[: len(self._places)]

    def catch_up(self, token_ids: Sequence[int]) -> None:
        """Take in what was added to `token_ids` since the last call."""
        for position in range(self._next, len(token_ids)):
            place = self._place(token_ids[position])
            self._said[place] += position >= self._start
        self._next = len(token_ids)

    def _place(self, token: int) -> int:
        place = self._places.get(token)
        if place is None:
            place = self._places[token] = len(self._places)
            if place == len(self._ids):
                self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
                self._said = np.concatenate([self._said, np.zeros_like(self._said)])
            self._ids[place] = token
        return place
