import json

import pytest

from engine.completion_lines import completion_lines
from engine.requests import Alternative, Completion, Grammar, Refusal, TokenAlternatives
from engine.workload import WorkloadUnreadable, read_workload


def write(tmp_path, *lines):
    path = tmp_path / "workload.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_line_becomes_a_request(tmp_path):
    path = write(
        tmp_path,
        json.dumps({"id": 7, "prompt_ids": [1, 2], "max_tokens": 3, "ignore_eos": True, "what": 1}),
        "",
        json.dumps({"id": "x", "messages": [{"role": "user", "content": "hi"}], "stop": "END"}),
    )

    items = read_workload(path)

    assert [item.item_id for item in items] == [7, "x"]
    assert items[0].request.prompt == [1, 2]
    assert items[0].request.params.max_tokens == 3
    assert items[0].request.params.ignore_eos
    assert items[1].request.params.temperature == 0
    assert items[1].request.params.stop == ("END",)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: Expecting"),
        ("[]", "line 2: not a JSON object"),
        ('{"id": 1}', "line 2: needs exactly one of prompt_ids, prompt, messages"),
        ('{"prompt": "a", "prompt_ids": [1]}', "line 2: needs exactly one of"),
        ('{"prompt": 7}', "line 2: a prompt is a string or a list"),
    ],
)
def test_a_line_that_is_no_request_is_named(tmp_path, line, complaint):
    path = write(tmp_path, '{"prompt": "fine"}', line)

    with pytest.raises(WorkloadUnreadable, match=complaint):
        read_workload(path)


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(WorkloadUnreadable, match="cannot be read"):
        read_workload(tmp_path / "nowhere.jsonl")


def test_completions_carry_the_ids_of_their_lines(tmp_path):
    items = read_workload(write(tmp_path, '{"id": 7, "prompt": "a"}', '{"prompt": "b"}'))
    refusal = Refusal("too_long", "Shorten it.", "prompt")
    completions = {
        "1": Completion("1", [5], "é", "stop", 1, 0),
        "2": Completion("2", [], "", "error", 0, 0, error=refusal),
    }

    lines = [json.loads(line) for line in completion_lines(items, completions)]

    assert lines[0] == {
        "id": 7, "token_ids": [5], "text": "é", "finish_reason": "stop",
        "prompt_tokens": 1, "cached_tokens": 0, "error": None,
    }  # fmt: skip
    assert lines[1]["id"] == 2
    assert lines[1]["error"] == {"code": "too_long", "message": "Shorten it.", "param": "prompt"}


def test_a_line_may_ask_for_all_that_a_request_can(tmp_path):
    path = write(
        tmp_path,
        json.dumps({"prompt": "a", "logit_bias": {"7": -1.5, "x": 1}, "logprobs": 2, "n": 3}),
        json.dumps({"prompt": "a", "tools": [{}], "priority": 2, "salt": "s", "deadline": 1.5}),
    )

    many, plain = read_workload(path)

    assert many.request.params.logit_bias == {7: -1.5, "x": 1}
    assert many.request.params.logprobs == 2
    assert [request.request_id for request in many.requests()] == ["1", "1/1", "1/2"]
    asked = plain.request
    assert (asked.tools, asked.priority, asked.salt, asked.deadline) == ([{}], 2, "s", 1.5)


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [
        ({"guided_regex": "a+"}, Grammar("regex", "a+")),
        ({"guided_choice": ["a", "b"]}, Grammar("choice", '["a", "b"]')),
        ({"response_format": {"type": "json_object"}}, Grammar("json_schema", '{"type":"object"}')),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            Grammar("json_schema", "{}"),
        ),
        ({"response_format": {"type": "text"}}, None),
    ],
)
def test_a_line_may_name_a_grammar(tmp_path, fields, grammar):
    [item] = read_workload(write(tmp_path, json.dumps({"prompt": "a", **fields})))

    assert item.request.params.grammar == grammar
    assert item.refusal is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": "two"}, "n"),
        ({"n": True}, "n"),
        ({"n": 1000}, "n"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"guided_choice": "a"}, "guided_choice"),
        ({"guided_choice": ["a"], "guided_regex": "a"}, "guided_choice"),
    ],
)
def test_what_no_request_can_ask_is_that_lines_refusal(tmp_path, fields, param):
    items = read_workload(write(tmp_path, json.dumps({"prompt": "a", **fields}), '{"prompt": "b"}'))

    [refused, _] = completion_lines(items, {"2": Completion("2", [5], "b", "stop", 1, 0)})

    assert items[0].requests() == []
    assert json.loads(refused)["error"]["param"] == param


def test_several_completions_stand_in_one_line(tmp_path):
    items = read_workload(write(tmp_path, '{"id": 7, "prompt": "a", "n": 2, "logprobs": 1}'))
    place = TokenAlternatives(Alternative(5, b"\xc3", -0.5), (Alternative(6, b"b", float("-inf")),))
    completions = {
        "1": Completion("1", [5], "b", "stop", 1, 0, logprobs=[place]),
        "1/1": Completion("1/1", [6], "c", "length", 1, 0, logprobs=[]),
    }

    [line] = completion_lines(items, completions)

    found = json.loads(line)
    assert found["logprobs"] == [
        {
            "token_id": 5, "bytes": [195], "logprob": -0.5,
            "top": [{"token_id": 6, "bytes": [98], "logprob": -1e9}],
        }
    ]  # fmt: skip
    assert [choice["token_ids"] for choice in found["choices"]] == [[5], [6]]
