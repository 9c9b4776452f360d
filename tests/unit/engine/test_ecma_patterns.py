"""A schema's patterns mean what ECMAScript means by them."""

import json

import pytest

from engine.ecma_patterns import in_ascii


@pytest.mark.parametrize(
    ("pattern", "means"),
    [
        (r"^\d{4}$", "^[0-9]{4}$"),
        (r"\w+\D\W", r"[A-Za-z0-9_]+[^0-9][^A-Za-z0-9_]"),
        (r"[\d.\w]", "[0-9.A-Za-z0-9_]"),
        (r"[[\d]\d", "[[0-9][0-9]"),
        (r"\\d", r"\\d"),
        (r"\[\d", r"\[[0-9]"),
        (r"[^\D]", r"[^\D]"),
        ("\\d\\", "[0-9]\\"),
        (r"\s[a-z]\d", r"\s[a-z][0-9]"),
    ],
)
def test_digits_and_letters_are_those_of_ascii(pattern: str, means: str) -> None:
    schema = json.loads(in_ascii(json.dumps({"pattern": pattern})))

    assert schema == {"pattern": means}


def test_patterns_are_found_at_any_depth_and_nothing_else_is_changed() -> None:
    kept = {"const": {"pattern": r"\d"}, "enum": [r"\d"], "description": r"\d"}
    schema = {
        "properties": {"pattern": {"pattern": r"\d"}, "kept": kept},
        "patternProperties": {r"^\d$": {"anyOf": [{"pattern": r"\w"}]}},
    }

    assert json.loads(in_ascii(json.dumps(schema))) == {
        "properties": {"pattern": {"pattern": "[0-9]"}, "kept": kept},
        "patternProperties": {"^[0-9]$": {"anyOf": [{"pattern": "[A-Za-z0-9_]"}]}},
    }
