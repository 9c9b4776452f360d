r"""The regular expressions of a JSON Schema, as JSON Schema means them.

They are ECMAScript's, where `\d` is 0 to 9 and `\w` is ASCII too; to the library that keeps
grammars they are any digit and any letter of Unicode.  Pure.
"""

import json
import re
from typing import Any

_PIECE = re.compile(r"\\.|[^\\\[\]]+|.", re.DOTALL)
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_"}
_NEEDED = re.compile(r"\\[dDwW]")
_VALUES = ("const", "default", "enum", "examples")  # what is in there is no schema


def in_ascii(schema: str) -> str:
    """The schema with its patterns rewritten."""
    if not _NEEDED.search(schema):
        return schema
    return json.dumps(_rewritten(json.loads(schema)), ensure_ascii=False)


def _rewritten(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_rewritten(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _keyword(name, value) for name, value in schema.items()}


def _keyword(name: str, value: Any) -> Any:
    match name, value:
        case "pattern", str():
            return _pattern(value)
        case "patternProperties", dict():
            return {_pattern(key): _rewritten(each) for key, each in value.items()}
        case _ if name in _VALUES:
            return value
    return _rewritten(value)


def _pattern(text: str) -> str:
    written, inside = list[str](), False  # a bracketed class
    for piece in _PIECE.findall(text):
        written.append(_escape(piece, inside=inside) if piece[0] == "\\" else piece)
        inside = {"[": True, "]": False}.get(piece, inside)
    return "".join(written)


def _escape(piece: str, *, inside: bool) -> str:
    letter = piece[1:]
    characters = _CLASSES.get(letter.lower())
    if characters is None:
        return piece
    if letter.islower():
        return characters if inside else f"[{characters}]"
    return piece if inside else f"[^{characters}]"  # in a class there is no word for "all but"
