"""What a body may say, and what it is told when it says something else."""

from contextlib import suppress

import pytest
from hypothesis import given

from jobs.errors import BodyRefused
from jobs.requests import (
    CHAT_COMPLETIONS,
    COMPLETIONS,
    MAX_OUTPUT_TOKENS,
    ChatCompletionBody,
    check_body,
    expected_output_tokens,
)
from tests.unit.jobs.test_lines import json_values

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"temperature": 999}, "temperature", "invalid_value"),
        ({"temperature": "hot"}, "temperature", "invalid_value"),
        ({"top_p": 0}, "top_p", "invalid_value"),
        ({"top_k": -1}, "top_k", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": 1.5}, "max_tokens", "invalid_value"),
        ({"max_tokens": True}, "max_tokens", "invalid_value"),
        ({"seed": 2**64}, "seed", "invalid_value"),
        ({"n": 2}, "n", "invalid_value"),
        ({"stream": True}, "stream", "invalid_value"),
        ({"stop": ["a"] * 5}, "stop", "invalid_value"),
        ({"stop": ""}, "stop", "invalid_value"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": "hi"}, "messages", "invalid_value"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages", "invalid_value"),
        ({"messages": [{"role": "user"}]}, "messages", "missing_required_parameter"),
        ({"temprature": 1}, "temprature", "unknown_parameter"),
        ({"chat_template": "{{ x }}"}, "chat_template", "unknown_parameter"),
        ({"cache_salt": "theirs"}, "cache_salt", "unknown_parameter"),
    ],
)
def test_a_wrong_body_is_refused_by_its_parameter(
    change: dict[str, object], param: str, code: str
) -> None:
    with pytest.raises(BodyRefused) as refusal:
        check_body(CHAT_COMPLETIONS, CHAT | change)

    assert (refusal.value.param, refusal.value.code) == (param, code)
    assert f"'{param}" in str(refusal.value)


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(BodyRefused, match=r"'prompt'.*required") as refusal:
        check_body(COMPLETIONS, {"model": "m"})

    assert refusal.value.code == "missing_required_parameter"


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0},
        {"temperature": 2.0, "top_p": 0.5, "top_k": 40, "seed": -1},
        {"stop": "END"},
        {"stop": ["a", "b", "c", "d"]},
        {"max_completion_tokens": MAX_OUTPUT_TOKENS},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {"response_format": {"type": "text"}},
        {"user": "u", "metadata": {"a": "b"}, "store": False, "n": 1, "stream": False},
        dict.fromkeys(("temperature", "top_p", "seed", "stop", "max_tokens", "n")),
    ],
)
def test_what_openai_clients_send_is_taken(change: dict[str, object]) -> None:
    check_body(CHAT_COMPLETIONS, CHAT | change)


def test_text_parts_are_one_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    body = check_body(CHAT_COMPLETIONS, CHAT | {"messages": [{"role": "user", "content": parts}]})

    assert isinstance(body, ChatCompletionBody)
    assert body.messages[0].text == "ab"


def test_the_newer_limit_wins() -> None:
    body = check_body(CHAT_COMPLETIONS, CHAT | {"max_tokens": 5, "max_completion_tokens": 7})

    assert body.output_limit == 7


@given(json_values)
def test_no_value_makes_the_judge_or_the_estimate_raise(value: object) -> None:
    for name in ("messages", "max_tokens", "stop", "temperature", "metadata", "response_format"):
        body = CHAT | {name: value}
        assert expected_output_tokens(body) > 0
        with suppress(BodyRefused):
            check_body(CHAT_COMPLETIONS, body)
