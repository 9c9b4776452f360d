"""Refuses values of types that no request can have.

Requests come from JSON and from programs, and neither is checked by anybody else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.requests import Grammar, Refusal, Request, SamplingParams

Check = Callable[[Any], bool]

GRAMMAR_KINDS = ("json_schema", "regex", "choice")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, (list, tuple)) and all(map(check, value))


def _is_bias(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and all(map(_is_integer, value))
        and all(map(_is_number, value.values()))
    )


def _is_grammar(value: Any) -> bool:
    return isinstance(value, Grammar) and value.kind in GRAMMAR_KINDS and _is_text(value.text)


PARAMS: dict[str, tuple[Check, str]] = {
    "max_tokens": (_or_none(_is_integer), "an integer"),
    "temperature": (_is_number, "a number"),
    "top_p": (_is_number, "a number"),
    "top_k": (_is_integer, "an integer"),
    "min_p": (_is_number, "a number"),
    "repetition_penalty": (_is_number, "a number"),
    "presence_penalty": (_is_number, "a number"),
    "frequency_penalty": (_is_number, "a number"),
    "logit_bias": (_is_bias, "a map of token ids to numbers"),
    "min_tokens": (_is_integer, "an integer"),
    "seed": (_or_none(_is_integer), "an integer"),
    "stop": (_list_of(_is_text), "a list of strings"),
    "stop_token_ids": (_list_of(_is_integer), "a list of token ids"),
    "ignore_eos": (_is_flag, "true or false"),
    "logprobs": (_or_none(_is_integer), "an integer"),
    "grammar": (_or_none(_is_grammar), f"a grammar of kind {', '.join(GRAMMAR_KINDS)}"),
}
FIELDS: dict[str, tuple[Check, str]] = {
    "prompt": (lambda value: isinstance(value, Sequence), "text, token ids or messages"),
    "tools": (_list_of(lambda tool: isinstance(tool, Mapping)), "a list of definitions"),
    "salt": (_is_text, "a string"),
    "adapter": (_is_text, "a string"),
    "priority": (_is_integer, "an integer"),
    "deadline": (_or_none(_is_number), "a number of seconds"),
}


def refuse_types(request: Request) -> Refusal | None:
    return _first_of(PARAMS, request.params) or _first_of(FIELDS, request)


def _first_of(
    checks: Mapping[str, tuple[Check, str]], holder: SamplingParams | Request
) -> Refusal | None:
    for name, (check, wanted) in checks.items():
        value = getattr(holder, name)
        if not check(value):
            message = f"{name} must be {wanted}, not {_shown(value)}."
            return Refusal("invalid_type", message, name)
    return None


def _shown(value: Any) -> str:
    """A value in a sentence, however long it is."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
