"""What a body may say, and what it is told when it says something else."""

from contextlib import suppress
from typing import Any

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

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TOOL = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object"}, "strict": True},
}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
    ],
}
CALLED = {"role": "tool", "tool_call_id": "1", "content": "4"}


CHANGEABLE = [
    "messages", "max_tokens", "stop", "temperature", "metadata", "response_format", "n", "tools",
    "logit_bias", "logprobs", "guided_choice", "stop_token_ids",
]  # fmt: skip


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": True},
    }


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
        ({"n": 0}, "n", "invalid_value"),
        ({"n": 129}, "n", "invalid_value"),
        ({"n": True}, "n", "invalid_value"),
        ({"min_p": 1.1}, "min_p", "invalid_value"),
        ({"repetition_penalty": 0}, "repetition_penalty", "invalid_value"),
        ({"presence_penalty": 2.1}, "presence_penalty", "invalid_value"),
        ({"frequency_penalty": float("nan")}, "frequency_penalty", "invalid_value"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {"-1": 1}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {"²": 1}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {"1": 101}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias", "invalid_value"),
        ({"min_tokens": -1}, "min_tokens", "invalid_value"),
        ({"stop_token_ids": [-1]}, "stop_token_ids", "invalid_value"),
        ({"logprobs": 5}, "logprobs", "invalid_value"),
        ({"top_logprobs": 5}, "top_logprobs", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"response_format": {"type": "xml"}}, "response_format", "invalid_value"),
        (
            {"response_format": {"type": "json_schema"}},
            "response_format",
            "missing_required_parameter",
        ),
        (
            {"response_format": json_schema({"enum": ["x" * 60_000]})},
            "response_format",
            "invalid_value",
        ),
        ({"guided_regex": ""}, "guided_regex", "invalid_value"),
        ({"guided_choice": []}, "guided_choice", "invalid_value"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice", "invalid_value"),
        (
            {"response_format": {"type": "json_object"}, "guided_regex": "a"},
            "guided_regex",
            "invalid_value",
        ),
        ({"tools": []}, "tools", "invalid_value"),
        ({"tools": [{"type": "web_search"}]}, "tools", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        (
            {"messages": [{"role": "tool", "content": "4"}]},
            "messages",
            "missing_required_parameter",
        ),
        ({"messages": [{"role": "assistant"}]}, "messages", "invalid_value"),
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
@pytest.mark.law("P30")
def test_a_wrong_body_is_refused_by_its_parameter(
    change: dict[str, object], param: str, code: str
) -> None:
    with pytest.raises(BodyRefused) as refusal:
        check_body(CHAT_COMPLETIONS, CHAT | change)

    assert (refusal.value.param, refusal.value.code) == (param, code)
    assert f"'{param}" in str(refusal.value)


@pytest.mark.parametrize("name", ["suffix", "functions", "stream_options", "seed", "ignore_eos"])
def test_null_asks_for_nothing_whatever_it_is_called(name: str) -> None:
    asked = check_body(CHAT_COMPLETIONS, CHAT | {name: None})

    assert asked == check_body(CHAT_COMPLETIONS, CHAT)


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
        {"response_format": {"type": "json_object"}},
        {"response_format": json_schema({"type": "object"})},
        {"guided_regex": "[a-z]+"},
        {"guided_choice": ["yes", "no"]},
        {"n": 3, "logprobs": True, "top_logprobs": 20},
        {"logit_bias": {"50256": -100, "0": 1.5}, "presence_penalty": -2, "frequency_penalty": 2},
        {"min_p": 0.1, "repetition_penalty": 1.1, "min_tokens": 3, "stop_token_ids": [1, 2]},
        {"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": True},
        {"messages": [*CHAT["messages"], CALL, CALLED]},
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


def test_choices_cost_as_much_as_so_many_requests() -> None:
    assert expected_output_tokens({"max_tokens": 10, "n": 3}) == 30
    assert expected_output_tokens({"max_tokens": 10, "n": -3}) == 10


@given(json_values)
def test_no_value_makes_the_judge_or_the_estimate_raise(value: object) -> None:
    for name in CHANGEABLE:
        body = CHAT | {name: value}
        assert expected_output_tokens(body) > 0
        with suppress(BodyRefused):
            check_body(CHAT_COMPLETIONS, body)
