"""A line's fault is its own, whatever is in it."""

import json
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import lines
from jobs.errors import BodyRefused
from jobs.lines import Answer, BadLine, Choice, InputLine, read_line
from jobs.logprobs import Place, TokenLogprob
from jobs.requests import CHAT_COMPLETIONS, COMPLETIONS

JOB = UUID(int=7)
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
GOOD: dict[str, object] = {
    "custom_id": "a",
    "method": "POST",
    "url": CHAT_COMPLETIONS,
    "body": BODY,
}


def read(line: object) -> InputLine | BadLine:
    raw = line if isinstance(line, bytes) else json.dumps(line).encode()
    return read_line(raw, endpoint=CHAT_COMPLETIONS)


def but(**changes: object) -> dict[str, object]:
    return GOOD | changes


def without(name: str) -> dict[str, object]:
    return {key: value for key, value in GOOD.items() if key != name}


def test_a_good_line_is_read() -> None:
    assert read(GOOD) == InputLine("a", "m", BODY)


@pytest.mark.parametrize(
    ("line", "code", "param"),
    [
        (b"{bad", "invalid_json_line", None),
        (b'{"custom_id": NaN}', "invalid_json_line", None),
        (b'{"custom_id": Infinity}', "invalid_json_line", None),
        (b'{"custom_id": "\\ud800"}', "invalid_json_line", None),
        (b"\xff\xfe", "invalid_encoding", None),
        (b"\x1f\x8b\x08\x00gzip", "invalid_encoding", None),
        ([1], "invalid_request", None),
        (None, "invalid_request", None),
        ("text", "invalid_request", None),
        (42, "invalid_request", None),
        *[(without(name), "missing_required_parameter", name) for name in GOOD],
        (but(body={}), "missing_required_parameter", "body.model"),
        (but(custom_id=7), "invalid_request", "custom_id"),
        (but(custom_id=""), "invalid_request", "custom_id"),
        (but(custom_id="x" * 513), "invalid_request", "custom_id"),
        (but(custom_id="nul\x00"), "invalid_request", "custom_id"),
        (but(method="GET"), "invalid_request", "method"),
        (but(method=None), "invalid_request", "method"),
        (but(url=COMPLETIONS), "url_mismatch", "url"),
        (but(url=["/v1"]), "invalid_request", "url"),
        (but(body="hi"), "invalid_request", "body"),
        (but(body={"model": 3}), "invalid_request", "body.model"),
        (but(body={"model": "a\x00b"}), "invalid_request", "body.model"),
        (but(body={"model": ""}), "invalid_request", "body.model"),
        (but(body={"model": "m", "stream": True}), "invalid_request", "body.stream"),
    ],
)
def test_a_bad_line_has_its_code_and_parameter(line: object, code: str, param: str | None) -> None:
    bad = read(line)

    assert isinstance(bad, BadLine)
    assert (bad.code, bad.param) == (code, param)


def test_a_bad_line_keeps_a_custom_id_that_can_be_read() -> None:
    bad = read(but(method="GET"))

    assert isinstance(bad, BadLine)
    assert bad.custom_id == "a"


def test_nesting_is_bounded_and_brackets_in_text_are_not_nesting() -> None:
    deep: object = "x"
    for _ in range(lines.MAX_DEPTH + 1):
        deep = [deep]

    refused = read(but(body={"model": "m", "deep": deep}))
    taken = read(but(custom_id="[" * 200))

    assert isinstance(refused, BadLine)
    assert isinstance(taken, InputLine)


def test_a_huge_line_is_refused_unread() -> None:
    bad = read(b'"' + b"x" * lines.MAX_LINE_BYTES + b'"')

    assert isinstance(bad, BadLine)
    assert bad.code == "invalid_request"


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(raw: bytes) -> None:
    assert isinstance(read_line(raw, endpoint=CHAT_COMPLETIONS), BadLine)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*GOOD, "extra"]), json_values)
def test_no_value_of_any_member_makes_it_raise(name: str, value: object) -> None:
    read(but(**{name: value}))


@given(st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_damage_to_a_good_line_is_its_own_fault_or_none(at: int, damage: bytes) -> None:
    raw = json.dumps(GOOD).encode()
    at %= len(raw)

    read(raw[:at] + damage + raw[at + 1 :])


@given(st.text(min_size=1, max_size=50).filter(lambda text: "\x00" not in text), st.text())
def test_what_is_written_reads_back(custom_id: str, said: str) -> None:
    answer = Answer(
        (Choice(said, "stop"),), prompt_tokens=5, cached_tokens=2, output_tokens=3, created=9
    )
    body = lines.response_body(JOB, 4, endpoint=CHAT_COMPLETIONS, model="m", answer=answer)

    line = lines.answered(JOB, 4, custom_id=custom_id, body=body)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    read_back = orjson.loads(line)
    assert read_back["custom_id"] == custom_id
    assert read_back["error"] is None
    choice = read_back["response"]["body"]["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": said, "refusal": None}
    assert read_back["response"]["body"]["usage"]["total_tokens"] == 8


def test_a_completion_has_text_and_no_message() -> None:
    answer = Answer(
        (Choice("said", "length"),), prompt_tokens=1, cached_tokens=0, output_tokens=1, created=9
    )

    body = lines.response_body(JOB, 0, endpoint=COMPLETIONS, model="m", answer=answer)

    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"] == "said"


def test_a_refused_body_is_http_shaped() -> None:
    error = BodyRefused("too hot", param="temperature", code="invalid_value")

    line = orjson.loads(lines.refused(JOB, 1, custom_id="a", error=error))

    assert line["error"] is None
    assert line["response"]["status_code"] == 400
    assert line["response"]["body"]["error"] == {
        "message": "too hot",
        "type": "invalid_request_error",
        "param": "temperature",
        "code": "invalid_value",
    }


def test_two_runs_of_a_request_give_it_one_id() -> None:
    first = lines.never_ran(JOB, 3, custom_id="a", code="batch_expired", message="late")
    second = lines.never_ran(JOB, 3, custom_id="a", code="batch_expired", message="late")

    assert first == second
    assert orjson.loads(first)["response"] is None


HELD = [
    Place(TokenLogprob("é".encode(), -0.5), (TokenLogprob("é".encode(), -0.5),)),
    Place(
        TokenLogprob(b"\xf0\x9f", float("-inf")),
        (TokenLogprob(b"x", -0.1), TokenLogprob(b"y", -2.0)),
    ),
    Place(TokenLogprob(b"\x99\x82", -1.0), ()),
    Place(TokenLogprob(b"z", -1.5), ()),
]


def choices_of(endpoint: str, *choices: Choice) -> list[dict[str, Any]]:
    answer = Answer(choices, prompt_tokens=1, cached_tokens=0, output_tokens=8, created=9)
    body = lines.response_body(JOB, 0, endpoint=endpoint, model="m", answer=answer)
    written: list[dict[str, Any]] = body["choices"]
    return written


def test_a_chats_logprobs_name_each_token_by_its_bytes() -> None:
    [choice] = choices_of(CHAT_COMPLETIONS, Choice("é🙂z", "stop", HELD))

    content = choice["logprobs"]["content"]
    assert content[0] == {
        "token": "é",
        "logprob": -0.5,
        "bytes": [195, 169],
        "top_logprobs": [{"token": "é", "logprob": -0.5, "bytes": [195, 169]}],
    }
    assert (content[1]["token"], content[1]["logprob"]) == ("bytes:\\xf0\\x9f", -9999.0)
    assert [each["token"] for each in content[1]["top_logprobs"]] == ["x", "y"]
    assert bytes(b for each in content for b in each["bytes"]).decode() == "é🙂z"


def test_a_completions_logprobs_stand_beside_each_other() -> None:
    [choice] = choices_of(COMPLETIONS, Choice("é🙂z", "stop", HELD))

    assert choice["logprobs"] == {
        "tokens": ["é", "bytes:\\xf0\\x9f", "bytes:\\x99\\x82", "z"],
        "token_logprobs": [-0.5, -9999.0, -1.0, -1.5],
        "top_logprobs": [
            {"é": -0.5},
            {"x": -0.1, "y": -2.0, "bytes:\\xf0\\x9f": -9999.0},
            {"bytes:\\x99\\x82": -1.0},
            {"z": -1.5},
        ],
        "text_offset": [0, 1, 1, 2],
    }


def test_choices_are_numbered_in_order() -> None:
    chat = choices_of(CHAT_COMPLETIONS, Choice("a", "stop"), Choice("b", "length"))

    assert [(each["index"], each["message"]["content"]) for each in chat] == [(0, "a"), (1, "b")]
    assert [each["finish_reason"] for each in chat] == ["stop", "length"]
    assert chat[0]["logprobs"] is None
