"""Reads the bodies of a shard's rows: what each asks for, and its prompt.

The rows of a batch mostly differ in their prompt alone.  What the rest of a body becomes is kept
and found again by the rest's bytes; then only the prompt has to be looked at, if it is of the plain
kind.  Whatever is not goes the full way, through jobs/requests.py, which alone says what is right.
"""

from typing import Any

import orjson

from engine.requests import Prompt
from jobs.requests import COMPLETIONS, check_body
from worker.inference.translation import Shape, prompt_of, shape_of

_KEPT = 64  # shapes


class BodyReader:
    """For the rows of one endpoint, and one thread at a time."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._prompt = "prompt" if endpoint == COMPLETIONS else "messages"
        self._shapes = dict[bytes, Shape]()

    def read(self, body: dict[str, Any]) -> tuple[Prompt, Shape]:
        """Raises BodyRefused.  `body`: parsed JSON."""
        prompt: Any = body.get(self._prompt)
        is_plain = _is_plain_text if self._endpoint == COMPLETIONS else _are_plain_messages
        if not is_plain(prompt):
            checked = check_body(self._endpoint, body)
            return prompt_of(checked), shape_of(checked)
        rest = orjson.dumps({name: body[name] for name in body if name != self._prompt})
        shape = self._shapes.get(rest)
        if shape is None:
            shape = shape_of(check_body(self._endpoint, body))
            if len(self._shapes) < _KEPT:
                self._shapes[rest] = shape
        return prompt, shape


def _is_plain_text(prompt: object) -> bool:
    return isinstance(prompt, str) and prompt != ""


def _are_plain_messages(messages: object) -> bool:
    """Whether nothing can be wrong with them, and nothing has to be changed for the engine."""
    return isinstance(messages, list) and messages != [] and all(map(_is_plain, messages))


def _is_plain(message: object) -> bool:
    return (
        isinstance(message, dict)
        and len(message) == 2
        and isinstance(message.get("content"), str)
        and message.get("role") in ("system", "user", "assistant")
    )
