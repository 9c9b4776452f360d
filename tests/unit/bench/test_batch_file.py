import json

import pytest

from bench.batch_file import ENDPOINT, batch_lines, check_output, custom_id
from bench.errors import OutputIncomplete
from jobs.lines import InputLine, read_line


def answer(number, *, status=200, text="{name} b c d e f g h"):
    message = {"role": "assistant", "content": text.format(name=custom_id(number))}
    line = {
        "custom_id": custom_id(number),
        "response": {"status_code": status, "body": {"choices": [{"message": message}]}},
        "error": None,
    }
    return json.dumps(line).encode() + b"\n"


def test_lines_are_valid_and_of_a_thousand_bytes():
    lines = list(batch_lines(40, model="mill"))

    read = [read_line(line.rstrip(b"\n"), endpoint="/v1/chat/completions") for line in lines]
    assert {len(line) for line in lines} == {1000}
    assert all(isinstance(line, InputLine) for line in read)
    assert [line.custom_id for line in read] == [custom_id(number) for number in range(40)]


def test_four_system_prompts_take_turns_and_no_question_comes_twice():
    bodies = [json.loads(line)["body"]["messages"] for line in batch_lines(40, model="mill")]

    systems = [body[0]["content"] for body in bodies]
    assert len(set(systems)) == 4
    assert systems[:36] == systems[4:]
    assert len({body[1]["content"] for body in bodies}) == 40


def test_bad_lines_are_spread_and_have_no_answer():
    lines = list(batch_lines(40, model="mill", bad=30))

    good = [isinstance(read_line(line, endpoint=ENDPOINT), InputLine) for line in lines]
    assert {len(line) for line in lines} == {1000}
    assert [sum(good[at : at + 8]) for at in range(0, 40, 8)] == [2] * 5
    check_output([answer(number) for number in range(40) if good[number]], count=40, bad=30)


def test_every_answer_once_and_in_order_is_accepted():
    check_output(map(answer, range(5)), count=5)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([answer(0), answer(1)], "ends before line 3"),
        ([answer(0), answer(2), answer(1)], "line 2 is line-0000002, not line-0000001"),
        ([answer(0), answer(1), answer(1)], "line 3 is line-0000001"),
        ([answer(0), answer(1), answer(2), answer(3)], "line 4 is line-0000003, not None"),
        ([answer(0), answer(1), answer(2, status=500)], "line-0000002 has no answer"),
        ([answer(0), answer(1), answer(2, text="{name} b")], "another answer than its own"),
        ([answer(0), answer(1), answer(2, text="a b c d e f g h")], "another answer than its own"),
    ],
)
def test_anything_else_is_refused(lines, complaint):
    with pytest.raises(OutputIncomplete, match=complaint):
        check_output(lines, count=3)
