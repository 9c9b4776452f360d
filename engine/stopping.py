"""Decides when a completion ends, and where its text does."""

from collections.abc import Callable, Sequence

from engine.incremental_text import IncrementalText
from engine.requests import FinishReason

Decode = Callable[[Sequence[int]], str]


class Stopping:
    """The stop conditions of one completion.

    max_tokens: completion tokens; stop_ids: tokens that end it; stop: texts that end it, also where
    they lie across the borders of tokens
    """

    def __init__(
        self, decode: Decode, *, max_tokens: int, stop_ids: frozenset[int], stop: tuple[str, ...]
    ) -> None:
        self._max_tokens = max_tokens
        self._stop_ids = stop_ids
        self._stop = stop
        self._text = IncrementalText(decode)
        self._tail = ""  # the end of the text so far, one character short of the longest stop

    def reason(self, token: int, num_tokens: int) -> FinishReason | None:
        """Look at the newest token, the `num_tokens`th.  To be called once for each."""
        if token in self._stop_ids or self._completes_a_stop(token):
            return "stop"
        return "length" if num_tokens >= self._max_tokens else None

    def cut(self, text: str) -> str:
        """The completion's text, of that of its tokens: without the string that stopped it."""
        cuts = [at for stop in self._stop if (at := text.find(stop)) >= 0]
        return text[: min(cuts)] if cuts else text

    def shown(self, token_ids: Sequence[int]) -> Sequence[int]:
        """The tokens without the one that stopped them."""
        stopped = bool(token_ids) and token_ids[-1] in self._stop_ids
        return token_ids[:-1] if stopped else token_ids

    def _completes_a_stop(self, token: int) -> bool:
        if not self._stop:
            return False
        recent = self._tail + self._text.push(token)
        keep = max(map(len, self._stop)) - 1
        self._tail = recent[-keep:] if keep else ""
        seen = recent + self._text.held_back
        return any(stop in seen for stop in self._stop)
