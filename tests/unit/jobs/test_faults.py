"""Every fault of a body is said in words that its sender can act on."""

from typing import Any

import pytest

from jobs.errors import BodyRefused
from jobs.requests import CHAT_COMPLETIONS, COMPLETIONS, check_body

ASKED = [{"role": "user", "content": "x"}]


def refusal(endpoint: str, body: dict[str, Any]) -> BodyRefused:
    with pytest.raises(BodyRefused) as caught:
        check_body(endpoint, {"model": "m"} | body)
    return caught.value


def of_content(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


CHAT: list[tuple[dict[str, Any], str]] = [
    ({}, "'messages': this parameter is required."),
    ({"messages": []}, "'messages': must have 1 or more elements."),
    ({"messages": "x"}, "'messages': must be a list."),
    (
        of_content([{"type": "image_url", "image_url": {"url": "https://x"}}]),
        "'messages.0.content.0.type': only text is supported, no images, audio or files.",
    ),
    (of_content(3), "'messages.0.content': must be a string or a list."),
    (of_content([{"type": "text"}]), "'messages.0.content.0.text': this parameter is required."),
    ({"messages": [{"content": "x"}]}, "'messages.0': needs 'role', which says what it is."),
    ({"messages": ASKED, "temperature": 3}, "'temperature': must be at most 2."),
    ({"messages": ASKED, "max_tokens": "5"}, "'max_tokens': must be a whole number."),
    ({"messages": ASKED, "stream": True}, "'stream': must be false."),
    ({"messages": ASKED, "stop": ["a"] * 5}, "'stop': at most 4 stop strings."),
    (
        {"messages": ASKED, "response_format": {"type": "json_schema"}},
        "'response_format.json_schema': this parameter is required.",
    ),
]


@pytest.mark.parametrize(("body", "says"), CHAT, ids=lambda value: str(value)[:60])
def test_a_fault_is_said_in_our_words(body: dict[str, Any], says: str) -> None:
    assert str(refusal(CHAT_COMPLETIONS, body)) == says


def test_a_list_of_prompts_is_no_string() -> None:
    assert str(refusal(COMPLETIONS, {"prompt": ["a", "b"]})) == "'prompt': must be a string."


def test_parameters_that_are_not_known_are_named_all_at_once() -> None:
    found = refusal(CHAT_COMPLETIONS, {"messages": [], "foo": 1, "bar": 2})

    assert str(found) == (
        "'foo', 'bar': these parameters are not known, or not supported yet; leave them out."
    )
    assert (found.param, found.code) == ("foo", "unknown_parameter")
