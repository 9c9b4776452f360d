"""Workload files: requests as JSONL in, completions as JSONL out.

One request a line: {"id", "prompt_ids" | "prompt" | "messages", "max_tokens", "temperature", ...};
unknown keys are ignored.  One completion a line, in the order of the requests.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import EngineError
from engine.requests import Completion, Request, SamplingParams

PROMPT_KEYS = ("prompt_ids", "prompt", "messages")
PARAMS: dict[str, type | tuple[type, ...]] = {
    "max_tokens": int,
    "temperature": (int, float),
    "top_p": (int, float),
    "top_k": int,
    "min_p": (int, float),
    "repetition_penalty": (int, float),
    "presence_penalty": (int, float),
    "frequency_penalty": (int, float),
    "min_tokens": int,
    "seed": int,
    "ignore_eos": bool,
    "stop": (str, list),
    "stop_token_ids": list,
}


class WorkloadUnreadable(EngineError):
    """The file, or a line of it, is not a workload.  The message is one sentence for a person."""


class Item(NamedTuple):
    """One line: the id that it gives, of whatever type, and the request."""

    item_id: Any
    request: Request


def read_workload(path: Path) -> list[Item]:
    """Raises WorkloadUnreadable, naming the line, if anything in it cannot be a request."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadUnreadable(f"the workload {path} cannot be read: {error}") from error
    items = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                items.append(_item(line, number))
            except ValueError as error:
                raise WorkloadUnreadable(f"{path}, line {number}: {error}") from error
    return items


def completion_lines(items: Iterable[Item], completions: Iterable[Completion]) -> Iterator[str]:
    for item, completion in zip(items, completions, strict=True):
        error = completion.error
        line = {
            "id": item.item_id,
            "token_ids": completion.token_ids,
            "text": completion.text,
            "finish_reason": completion.finish_reason,
            "prompt_tokens": completion.prompt_tokens,
            "cached_tokens": completion.cached_tokens,
            "error": error and {"code": error.code, "message": error.message, "param": error.param},
        }
        yield json.dumps(line, ensure_ascii=False) + "\n"


def _item(line: str, number: int) -> Item:
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    prompts = [fields[key] for key in PROMPT_KEYS if fields.get(key) is not None]
    if len(prompts) != 1:
        raise ValueError(f"needs exactly one of {', '.join(PROMPT_KEYS)}")
    if not isinstance(prompts[0], (str, list)):
        raise ValueError("a prompt is a string or a list")
    request = Request(request_id=str(number), prompt=prompts[0], params=_params(fields))
    return Item(fields.get("id", number), request)


def _params(fields: dict[str, Any]) -> SamplingParams:
    given: dict[str, Any] = {key: fields[key] for key in PARAMS if fields.get(key) is not None}
    for key, value in given.items():
        if not isinstance(value, PARAMS[key]):
            raise ValueError(f"{key} cannot be {value!r}")
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
    }
    return SamplingParams(**values)
