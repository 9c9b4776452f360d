"""Guesses how long completions will be, so that admission can promise blocks without preempting.

Plain arithmetic over lengths seen before.  A guess that is too low costs a preemption, one that is
too high leaves blocks unused; neither changes a result.
"""

from bisect import bisect_left, insort
from collections import deque
from math import inf

from engine.sequence import Sequence

WINDOW = 256  # completions remembered
ENOUGH = 32  # completions seen before they are believed
QUANTILE = 0.95
UNKNOWN = 256  # tokens, for the first requests that name no limit
MARGIN = 32  # tokens that a sequence beyond its forecast is expected to go on for


class LengthForecast:
    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def observe(self, seq: Sequence) -> None:
        """Learn from a finished sequence.  One that was cut off at its limit had no length."""
        cut_off = seq.num_output_tokens >= seq.max_tokens
        length = inf if cut_off else float(seq.num_output_tokens)
        self._recent.append(length)
        insort(self._sorted, length)
        if len(self._recent) > WINDOW:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]

    def remaining_tokens(self, seq: Sequence) -> int:
        """The tokens that it will probably still get."""
        return self.total_tokens(seq) - len(seq.token_ids)

    def total_tokens(self, seq: Sequence) -> int:
        """The tokens, prompt included, that the sequence will probably have at its end."""
        limit = seq.max_tokens
        if len(self._sorted) >= ENOUGH:
            guess = self._sorted[int(QUANTILE * (len(self._sorted) - 1))]
        else:
            guess = inf if seq.max_tokens_given else UNKNOWN
        if seq.num_output_tokens >= guess:
            guess = seq.num_output_tokens + MARGIN
        return seq.num_prompt_tokens + int(min(limit, guess))
