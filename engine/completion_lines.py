"""Completions as JSONL, one line for each line of a workload and in its order."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.requests import Alternative, Completion
from engine.workload import Item


def completion_lines(items: Sequence[Item], completions: Mapping[str, Completion]) -> Iterator[str]:
    """completions: by the ids of the items' requests"""
    for item in items:
        found = [completions[request.request_id] for request in item.requests()]
        yield json.dumps(_line(item, found), ensure_ascii=False) + "\n"


def _line(item: Item, found: list[Completion]) -> dict[str, Any]:
    """What the first completion is, and beside it all of them where more than one was asked for."""
    first = found[0] if found else _nothing(item)
    error = next((each.error for each in found if each.error is not None), first.error)
    line = {
        "id": item.item_id,
        **_choice(first),
        "prompt_tokens": first.prompt_tokens,
        "cached_tokens": first.cached_tokens,
        "error": error and {"code": error.code, "message": error.message, "param": error.param},
    }
    return line | ({"choices": [_choice(each) for each in found]} if len(found) > 1 else {})


def _choice(completion: Completion) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "token_ids": completion.token_ids,
        "text": completion.text,
        "finish_reason": completion.finish_reason,
    }
    if completion.logprobs is not None:
        choice["logprobs"] = [
            _alternative(place.chosen) | {"top": [_alternative(other) for other in place.top]}
            for place in completion.logprobs
        ]
    return choice


def _alternative(token: Alternative) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "bytes": list(token.content),
        "logprob": max(token.logprob, -1e9),  # JSON has no infinity
    }


def _nothing(item: Item) -> Completion:
    return Completion(item.request.request_id, [], "", "error", 0, 0, error=item.refusal)
