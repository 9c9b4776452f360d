"""A completion as server-sent events, for clients that ask for `stream`.

The answer is there as a whole before the first event is sent, so each choice comes in one piece,
and a refusal keeps its status.
"""

from collections.abc import Iterator
from typing import Any

import orjson
from fastapi.responses import StreamingResponse

_CHAT = "chat.completion"


def answer(
    completion: dict[str, Any], *, with_usage: bool, headers: dict[str, str]
) -> StreamingResponse:
    """`completion` is the body that would be sent without `stream`."""
    return StreamingResponse(
        _events(completion, with_usage),
        media_type="text/event-stream",
        headers=headers | {"Cache-Control": "no-cache"},
    )


def _events(completion: dict[str, Any], with_usage: bool) -> Iterator[bytes]:
    is_chat = completion["object"] == _CHAT
    same = {name: completion[name] for name in ("id", "created", "model")}
    same["object"] = f"{_CHAT}.chunk" if is_chat else completion["object"]
    for choice in completion["choices"]:
        for piece in _of_chat(choice) if is_chat else [choice]:
            yield _event(same | {"choices": [piece]})
    if with_usage:
        yield _event(same | {"choices": [], "usage": completion["usage"]})
    yield b"data: [DONE]\n\n"


def _of_chat(choice: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message, and then how it ended: as clients that gather deltas expect them."""
    told = {"index": choice["index"], "logprobs": choice.get("logprobs")}
    yield told | {"delta": choice["message"], "finish_reason": None}
    yield {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"
