"""What is wrong with a client's JSON, in our words: pydantic's speak of validation and of Python.

Pure.  A union's every branch complains; what is said is the complaint that got deepest into what
was sent, without the names of branches.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pydantic_core import ErrorDetails

_WORDS = {
    "missing": "this parameter is required",
    "extra_forbidden": "this parameter is not known, or not supported yet; leave it out",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "none_required": "must be null",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_not_found": "needs {discriminator}, which says what it is",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
    "too_short": "must have {min_length} or more elements",
    "too_long": "must have at most {max_length} elements",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have at most {max_length} characters",
    "greater_than": "must be over {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be under {lt}",
    "less_than_equal": "must be at most {le}",
}
_NOT_TEXT = "only text is supported, no images, audio or files"


class Fault(NamedTuple):
    """`path` as one writes it, like `messages.0.content`; `kind` is pydantic's."""

    path: str
    kind: str
    sentence: str


def said(errors: Sequence[ErrorDetails], sent: Any) -> Fault:
    """The first fault of `sent`, of all that pydantic found in it; not empty."""
    about = [error for error in errors if error["loc"][:1] == errors[0]["loc"][:1]]
    deepest = max(about, key=lambda error: len(_path(error, sent)))
    path = _path(deepest, sent)
    same = [error for error in about if _path(error, sent) == path]
    first, *others = dict.fromkeys(words(error) for error in same)
    sentence = " or ".join([first, *(other.removeprefix("must be ") for other in others)])
    if len(path) > 2 and path[-1] == "type" and path[-3] == "content":
        sentence = _NOT_TEXT
    return Fault(".".join(map(str, path)), deepest["type"], sentence.rstrip(".") + ".")


def unknown(errors: Iterable[ErrorDetails]) -> list[str]:
    """The parameters that are not known, all of them: nobody wants to learn of them one by one."""
    return [
        str(error["loc"][0])
        for error in errors
        if error["type"] == "extra_forbidden" and len(error["loc"]) == 1
    ]


def words(error: ErrorDetails) -> str:
    """What is wrong, without where, and without a full stop at its end."""
    text = isinstance(error["input"], str)  # whose characters pydantic may call items
    ours = (text and _WORDS.get(f"string_{error['type']}")) or _WORDS.get(error["type"])
    if not ours:
        return error["msg"].removeprefix("Value error, ")
    context = error.get("ctx", {})
    return ours.format(**{name: _as_json(value) for name, value in context.items()})


def _as_json(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return {"True": "true", "False": "false"}.get(str(value), value)


def _path(error: ErrorDetails, sent: Any) -> list[int | str]:
    """Where in `sent` it is; the names of a union's branches, which lead nowhere, are left out."""
    path, here = list[int | str](), sent
    for part in error["loc"]:
        if _leads_on(here, part):
            here = here[part]
            path.append(part)
    return [*path, error["loc"][-1]] if error["type"] == "missing" else path


def _leads_on(here: Any, part: int | str) -> bool:
    return (
        part in here if isinstance(here, dict) else isinstance(here, list) and isinstance(part, int)
    )
