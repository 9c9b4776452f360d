import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import strict_json
from jobs.errors import InvalidEncoding, InvalidJson

# Surrogates are no characters of their own; everything else is.
CHARACTERS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | CHARACTERS | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner) | st.dictionaries(CHARACTERS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_whatever_json_can_say_comes_back(value: object) -> None:
    assert strict_json.parse(json.dumps(value).encode()) == value


@given(st.binary())
def test_any_bytes_are_parsed_or_refused_and_nothing_else(raw: bytes) -> None:
    with suppress(InvalidEncoding, InvalidJson):
        strict_json.parse(raw)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"{", "line 1, column 2"),
        (b'{"a": NaN}', "NaN"),
        (b"[1e999]", "too large: 1e999"),
        (b"[" + b"1" * 30 + b"]", "30 digits"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b"[" * 65 + b"]" * 65, "64 levels"),
        (b"[" * 10**6, "64 levels"),
        (b'["\\uD800"]', "surrogate"),
        (b'["\xff"]', "byte 2"),
    ],
)
def test_a_refusal_says_what_is_wrong(raw: bytes, says: str) -> None:
    with pytest.raises((InvalidEncoding, InvalidJson), match=says):
        strict_json.parse(raw)


def test_64_levels_and_a_whole_surrogate_pair_are_taken() -> None:
    deep = strict_json.parse(b"[" * 64 + b"]" * 64)
    pair = strict_json.parse(b'["\\ud83d\\ude00"]')

    assert json.dumps(deep) == "[" * 64 + "]" * 64
    assert pair == ["\U0001f600"]
