import json

import pytest

from engine.requests import Completion, Refusal
from engine.workload import WorkloadUnreadable, completion_lines, read_workload


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
        ('{"prompt": "a", "max_tokens": "many"}', "line 2: max_tokens cannot be 'many'"),
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
    completions = [
        Completion("1", [5], "é", "stop", 1, 0),
        Completion("2", [], "", "error", 0, 0, error=refusal),
    ]

    lines = [json.loads(line) for line in completion_lines(items, completions)]

    assert lines[0] == {
        "id": 7, "token_ids": [5], "text": "é", "finish_reason": "stop",
        "prompt_tokens": 1, "cached_tokens": 0, "error": None,
    }  # fmt: skip
    assert lines[1]["id"] == 2
    assert lines[1]["error"] == {"code": "too_long", "message": "Shorten it.", "param": "prompt"}
