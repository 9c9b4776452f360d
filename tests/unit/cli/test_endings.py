"""What is said of a batch that has ended, and of its file's faults."""

from pathlib import Path
from typing import Any

import pytest

from cli.batch_faults import sentences
from cli.endings import Ending, ending_of, report


def batch(status: str, *, failed: int = 0, errors: list[dict[str, Any]] | None = None) -> Any:
    return {
        "id": "batch_x",
        "status": status,
        "request_counts": {"total": 120, "completed": 3, "failed": failed},
        "errors": None if errors is None else {"data": errors},
    }


def fault(line: int | None, message: str = "The model 'x' does not exist.") -> dict[str, Any]:
    return {"line": line, "message": message, "code": "model_not_found", "param": "body.model"}


def test_rows_that_never_ran_are_counted_and_the_way_on_is_named() -> None:
    said = list(report(batch("cancelled"), {"never_ran": 117}, [Path("night.error.jsonl")]))

    assert said[0] == "cancelled: 3 completed, 0 failed, 117 never ran, of 120"
    assert said[1] == "results: night.error.jsonl"
    assert "`gristmill batches retry batch_x`" in said[2]


def test_a_batch_without_results_names_no_place_for_them() -> None:
    said = list(report(batch("failed", errors=[fault(2)]), {"never_ran": 0}, []))

    assert said[1:] == [
        "line 2: The model 'x' does not exist.",
        "Nothing ran. Correct the file and submit it again; as it is, with --again.",
    ]


@pytest.mark.parametrize(
    ("status", "failed", "ending"),
    [
        ("completed", 0, Ending.COMPLETED),
        ("completed", 1, Ending.SOME_FAILED),
        ("failed", 0, Ending.FAILED),
        ("expired", 0, Ending.EXPIRED),
        ("cancelled", 2, Ending.CANCELLED),
    ],
)
def test_the_exit_code_is_how_it_ended(status: str, failed: int, ending: Ending) -> None:
    assert ending_of(batch(status, failed=failed)) is ending


def test_lines_with_the_same_fault_are_named_together() -> None:
    errors = [*(fault(line) for line in range(1, 101)), fault(103), fault(102, "Other.")]
    errors.append(fault(None, "1,000 lines are invalid; the first 100 are listed."))

    said = list(sentences(batch("failed", errors=errors)))

    assert said == [
        "lines 1-100, 103: The model 'x' does not exist.",
        "line 102: Other.",
        "1,000 lines are invalid; the first 100 are listed.",
    ]


def test_scattered_lines_and_many_faults_are_cut_short() -> None:
    scattered = [fault(line) for line in range(1, 99, 2)]
    different = [fault(line, f"Fault {line}.") for line in range(100, 115)]

    said = list(sentences(batch("failed", errors=[*scattered, *different])))

    assert said[0] == "lines 1, 3, 5, 7, 9, …: The model 'x' does not exist."
    assert len(said) == 11
    assert said[-1] == "and 6 other faults of lines"
