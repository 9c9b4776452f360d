"""Windows of a file: bounded in bytes and in lines, and what a line becomes in one."""

import orjson
import pytest

from jobs.lines import BadLine, InputLine
from jobs.planning import RequestRow
from worker.control import rows
from worker.control.grouping import PlannedRow
from worker.control.rows import RefusedRow, windows
from worker.control.validation import Judged

BAD = BadLine("invalid_request", "no", None, None)


def sizes(*lines: Judged) -> list[int]:
    return [len(window) for window in windows(lines, salt="s")]


def bad(index: int, size: int) -> Judged:
    return Judged(index, index + 1, size, BAD)


def test_a_window_ends_before_it_holds_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "WINDOW_BYTES", 100)

    assert sizes(*(bad(index, size) for index, size in enumerate([50, 50, 1, 300, 99]))) == [
        2,
        1,
        1,
        1,
    ]


def test_a_window_of_the_shortest_lines_has_an_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "WINDOW_ROWS", 4)

    assert sizes(*(bad(index, 1) for index in range(10))) == [4, 4, 2]


def test_a_good_line_becomes_its_shards_line_and_its_row() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": 'say "é"'}], "max_tokens": 9}
    line = Judged(3, 7, 400, InputLine('a "b"', "m", body))

    ((row,),) = windows([line], salt="s")

    assert isinstance(row, PlannedRow)
    assert orjson.loads(row.line) == {"index": 3, "custom_id": 'a "b"', "body": body}
    assert row.line.endswith(b"}\n")
    assert (row.request.index, row.request.line, row.request.custom_id) == (3, 7, 'a "b"')
    assert row.cost == 400 // 4 + 9


def test_a_bad_line_is_kept_with_what_could_be_read_of_it() -> None:
    named = BadLine("invalid_request", "no", "method", "a")

    ((row,),) = windows([Judged(0, 1, 10, named)], salt="s")

    assert row == RefusedRow(RequestRow(0, 1, "a"), named)
