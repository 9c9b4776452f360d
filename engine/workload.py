"""Workload files: requests as JSONL.

One request a line: {"id", "prompt_ids" | "prompt" | "messages", "max_tokens", "temperature", ...};
unknown keys are ignored.  A line that is no request at all makes the file unreadable; a value that
no request can have is its own request's refusal, and the others run.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.choices import choices
from engine.errors import EngineError
from engine.requests import Grammar, Refusal, Request, SamplingParams

PROMPT_KEYS = ("prompt_ids", "prompt", "messages")
PARAM_KEYS = (
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "min_tokens",
    "seed",
    "ignore_eos",
    "stop",
    "stop_token_ids",
    "logit_bias",
    "logprobs",
)
REQUEST_KEYS = ("tools", "priority", "salt", "adapter", "deadline")
GRAMMAR_KEYS = ("response_format", "guided_regex", "guided_choice")
MAX_CHOICES = 128


class WorkloadUnreadable(EngineError):
    """The file, or a line of it, is not a workload.  The message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line: the id that it gives, of whatever type, its request, and how many completions.

    refusal: what is wrong with it, where the engine could not say so
    """

    item_id: Any
    request: Request
    num_choices: int = 1
    refusal: Refusal | None = None

    def requests(self) -> list[Request]:
        """One for each completion."""
        return [] if self.refusal else list(choices(self.request, self.num_choices))


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


def _item(line: str, number: int) -> Item:
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    prompts = [fields[key] for key in PROMPT_KEYS if fields.get(key) is not None]
    if len(prompts) != 1:
        raise ValueError(f"needs exactly one of {', '.join(PROMPT_KEYS)}")
    if not isinstance(prompts[0], (str, list)):
        raise ValueError("a prompt is a string or a list")
    grammar = _grammar(fields)
    refusal = grammar if isinstance(grammar, Refusal) else _refuse_choices(fields)
    params = _given(fields, PARAM_KEYS)
    if isinstance(params.get("stop"), str):
        params["stop"] = (params["stop"],)
    if isinstance(params.get("logit_bias"), dict):
        params["logit_bias"] = _by_token_id(params["logit_bias"])
    request = Request(
        request_id=str(number),
        prompt=prompts[0],
        params=SamplingParams(**params, grammar=None if isinstance(grammar, Refusal) else grammar),
        **_given(fields, REQUEST_KEYS),
    )
    num_choices = 1 if refusal else fields.get("n") or 1
    return Item(fields.get("id", number), request, num_choices, refusal)


def _given(fields: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: fields[key] for key in keys if fields.get(key) is not None}


def _by_token_id(biases: Mapping[str, Any]) -> dict[int | str, Any]:
    # JSON's keys are strings; what is no number stays one, and is refused as such.
    return {int(key) if key.isdecimal() else key: bias for key, bias in biases.items()}


def _refuse_choices(fields: Mapping[str, Any]) -> Refusal | None:
    n = fields.get("n")
    if n is None or (isinstance(n, int) and n is not True and 1 <= n <= MAX_CHOICES):
        return None
    return Refusal("invalid_value", f"n must be an integer of 1 to {MAX_CHOICES}.", "n")


def _grammar(fields: Mapping[str, Any]) -> Grammar | Refusal | None:
    asked = _given(fields, GRAMMAR_KEYS)
    if not asked:
        return None
    if len(asked) > 1:
        message = f"Give one of {', '.join(GRAMMAR_KEYS)}."
        return Refusal("invalid_value", message, sorted(asked)[0])
    match asked:
        case {"guided_regex": str(text)}:
            return Grammar("regex", text)
        case {"guided_choice": [*texts]} if all(isinstance(text, str) for text in texts):
            return Grammar("choice", json.dumps(texts))
        case {"response_format": {"type": "json_object"}}:
            return Grammar("json_schema", '{"type":"object"}')
        case {"response_format": {"type": "json_schema", "json_schema": {"schema": dict(schema)}}}:
            return Grammar("json_schema", json.dumps(schema))
        case {"response_format": {"type": "text"}}:
            return None
    [name] = asked
    return Refusal("invalid_value", f"{name} is none that we know.", name)
