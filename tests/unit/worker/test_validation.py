"""Splitting a file into lines and keeping what was wrong with them."""

import tracemalloc
from collections import Counter

import orjson
from hypothesis import given
from hypothesis import strategies as st

from jobs.lines import BadLine, InputLine
from jobs.requests import CHAT_COMPLETIONS
from tests.unit.jobs.test_lines import GOOD
from worker.control.validation import MAX_LISTED, Findings, Judge, ModelLookup, split_lines


def judge(*raw: bytes, known: tuple[str, ...] = ("m",)) -> list[tuple[int, int, str]]:
    """(index, line number, "good" or the code) of each line that is not blank."""
    judged = Judge(endpoint=CHAT_COMPLETIONS, known_models=ModelLookup(known.__contains__))
    return [
        (
            line.index,
            line.number,
            "good" if isinstance(line.content, InputLine) else line.content.code,
        )
        for line in judged.judge(raw)
    ]


def line_of(model: str) -> bytes:
    return orjson.dumps(GOOD | {"body": {"model": model}})


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_lines_are_the_same_however_the_bytes_arrive(pieces: list[bytes], size: int) -> None:
    data = b"\n".join(pieces)
    chunks = [data[at : at + size] for at in range(0, len(data), size)]

    got = list(split_lines(chunks, limit=1000))

    whole = data.split(b"\n")
    assert got == (whole if whole[-1] else whole[:-1])


def test_only_a_line_feed_ends_a_line() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\rf".encode()

    assert list(split_lines([text + b"\n" + text], limit=1000)) == [text, text]


def test_a_line_over_the_limit_is_cut_and_the_next_is_whole() -> None:
    chunks = [b"x" * 6, b"x" * 6 + b"\nnext"]

    assert list(split_lines(chunks, limit=8)) == [b"x" * 9, b"next"]


def test_blank_lines_count_in_numbers_and_not_in_indexes() -> None:
    assert judge(b"", line_of("m"), b" \t\r", line_of("m")) == [(0, 2, "good"), (1, 4, "good")]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert judge(b"\xef\xbb\xbf" + line_of("m")) == [(0, 1, "good")]
    assert judge(b"\xef\xbb\xbf") == []
    assert judge(line_of("m"), b"\xef\xbb\xbf" + line_of("m"))[1][2] == "invalid_json_line"


def test_one_model_a_file_and_a_known_one() -> None:
    lines = [line_of("unknown"), line_of("m"), line_of("other")]

    assert [code for *_, code in judge(*lines, known=("m", "other"))] == [
        "model_not_found",
        "good",
        "model_mismatch",
    ]


def test_a_model_is_looked_up_once() -> None:
    asked = Counter[str]()

    def exists(name: str) -> bool:
        asked[name] += 1
        return True

    lookup = ModelLookup(exists)

    assert all(lookup("m") for _ in range(5))
    assert asked == {"m": 1}


def test_a_file_of_a_million_models_is_not_remembered_name_by_name() -> None:
    lookup = ModelLookup(lambda _: False, lambda: ["m"])

    tracemalloc.start()
    for number in range(1_000):
        name = f"{number:0256}"
        assert not lookup(name)
        assert lookup.missing(name)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 100_000


def test_a_model_that_is_not_there_is_answered_with_the_names_of_some_that_are() -> None:
    lookup = ModelLookup(lambda _: False, lambda: [f"m{n}" for n in range(7)])

    assert lookup.missing("gpt-4o") == (
        "There is no model named 'gpt-4o'; there are m0, m1, m2, m3, m4 and 2 more, which GET"
        " /v1/models lists."
    )


def test_without_any_worker_yet_a_missing_model_says_so() -> None:
    assert ModelLookup(lambda _: False).missing("m") == (
        "There is no model named 'm'; no worker has offered one yet."
    )


def test_findings_list_the_first_lines_and_the_total() -> None:
    findings = Findings()
    for number in reversed(range(1, 251)):
        findings.add(number, BadLine("invalid_request", "no"))

    listed = findings.as_json()

    assert [entry["line"] for entry in listed[:-1]] == list(range(1, MAX_LISTED + 1))
    assert listed[-1]["line"] is None
    assert "250" in str(listed[-1]["message"])


def test_few_findings_need_no_total() -> None:
    findings = Findings()
    findings.add(3, BadLine("invalid_request", "no", "body"))

    assert findings.as_json() == [
        {"code": "invalid_request", "message": "no", "param": "body", "line": 3}
    ]
