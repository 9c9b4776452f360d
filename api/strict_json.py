"""Parses a client's JSON and refuses whatever two readers could read differently.

Python's parser takes NaN, keeps the last of two equal keys, makes 1e999 infinite and lets half a
surrogate pair through; each of those would be stored or answered as something else than was sent.
"""

import json
import math
from typing import Any, NoReturn

from jobs.errors import InvalidEncoding, InvalidJson
from jobs.lines import MAX_DEPTH, too_deep

_MAX_DIGITS = 20  # of a 64-bit integer and its sign


def parse(raw: bytes) -> Any:
    """Return the value.  Raises InvalidEncoding or InvalidJson, which say where."""
    try:
        value = json.loads(
            raw.decode(),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise InvalidEncoding(f"The body is not UTF-8: byte {error.start} is not text.") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidJson(f"The body is not valid JSON: {error.msg} at {where}.") from error
    except RecursionError as error:
        raise _too_deep() from error
    if too_deep(raw, value):
        raise _too_deep()
    _refuse_lone_surrogates(raw, value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidJson(f"The body has the key {key[:80]!a} twice in one object.")
        found[key] = value
    return found


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise InvalidJson(f"The body has a number of {len(digits)} digits; 64 bits is the most.")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise InvalidJson(f"The body has a number that is too large: {digits[:20]}.")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidJson(f"The body is not valid JSON: {name} is not a JSON value.")


def _too_deep() -> InvalidJson:
    return InvalidJson(f"The body nests deeper than {MAX_DEPTH} levels.")


def _refuse_lone_surrogates(raw: bytes, value: Any) -> None:
    if b"\\ud" not in raw.lower():  # the raw text is UTF-8: only an escape can make one
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidJson(
            "The body has half a surrogate pair in a string; it is no character."
        ) from error
