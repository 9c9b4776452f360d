"""The text of a list of tokens that grows, one token at a time."""

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"
MAX_PENDING = 8  # tokens; a character has four bytes at most, more are not text


class IncrementalText:
    """Gives out text once it can no longer change: never half a character.

    A token is decoded together with those before it, because what it looks like may depend on them.

    held_back: what comes before the half of a character
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._context: list[int] = []
        self._context_text = ""
        self._pending: list[int] = []
        self.held_back = ""

    def push(self, token: int) -> str:
        """Return the text that this token completes; empty while a character is incomplete."""
        self._pending.append(token)
        text = self._decode(self._context + self._pending)
        piece = text[len(self._context_text) :]
        if text.endswith(REPLACEMENT) and len(self._pending) < MAX_PENDING:
            self.held_back = piece.rstrip(REPLACEMENT)
            return ""
        self.held_back = ""
        self._context, self._pending = self._pending, []
        self._context_text = self._decode(self._context)
        return piece
