"""A receipt and the files it tells of: whatever is changed in them is found and said."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CommandFailed
from cli.receipt_check import Downloads, differences, read_receipt

Receipt = dict[str, Any]


def result(custom_id: str | None, *, code: str | None = None) -> bytes:
    error = None if code is None else {"code": code, "message": ""}
    return json.dumps({"custom_id": custom_id, "error": error}).encode() + b"\n"


def told_of(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {
        "file_id": "file-x",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "lines": len(data.splitlines()),
    }


class Scene:
    """Four requests, one of them unreadable: two answered, one invalid, one cancelled."""

    def __init__(self, folder: Path) -> None:
        self.input, self.output, self.error = (
            folder / name for name in ("input", "output", "error")
        )
        lines = [json.dumps({"custom_id": name}).encode() for name in ("a", "b", "c")]
        self.input.write_bytes(b"\xef\xbb\xbf" + b"\n".join([*lines, b"{bad"]))
        self.output.write_bytes(result("a") + result("b"))
        self.error.write_bytes(
            result("c", code="batch_cancelled") + result(None, code="invalid_json_line")
        )
        self.receipt: Receipt = {
            "object": "batch.receipt",
            "batch_id": "batch_x",
            "status": "cancelled",
            "retry_of": None,
            "request_counts": {"total": 4, "completed": 2, "failed": 1},
            "never_ran": 1,
        }
        self.tell()

    def tell(self) -> None:
        """Let the receipt's hashes be those of the files as they are now."""
        for name in ("input", "output", "error"):
            self.receipt[name] = told_of(getattr(self, name))

    def differences(self, **changes: Path | None) -> list[str]:
        files = {"output": self.output, "error": self.error, "input": self.input} | changes
        return list(differences(self.receipt, Downloads(**files)))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_files_of_the_receipt_are_in_order(scene: Scene) -> None:
    assert scene.differences() == []
    assert scene.differences(input=None) == []


def cut_off(scene: Scene) -> None:
    scene.output.write_bytes(scene.output.read_bytes()[:-5])


def swapped(scene: Scene) -> None:
    scene.output.write_bytes(result("b") + result("a"))


def other_input(scene: Scene) -> None:
    scene.input.write_bytes(scene.input.read_bytes().replace(b'"a"', b'"a" '))


def twice_in_two_files(scene: Scene) -> None:
    scene.error.write_bytes(scene.error.read_bytes() + result("a", code="worker_lost"))
    scene.receipt["request_counts"] |= {"total": 5, "failed": 2}
    scene.tell()


def one_replaced(scene: Scene) -> None:
    scene.output.write_bytes(result("a") + result("z"))
    scene.error.write_bytes(scene.error.read_bytes().replace(b"null", b'"y"', 1))
    scene.tell()


def one_not_counted(scene: Scene) -> None:
    scene.receipt["request_counts"] |= {"completed": 1}


def no_json(scene: Scene) -> None:
    scene.output.write_bytes(result("a") + b"b\n")
    scene.tell()


FAULTS: dict[Callable[[Scene], None], str] = {
    cut_off: "output file's sha256",
    swapped: "output file's sha256",
    other_input: "input file's sha256",
    twice_in_two_files: "1 custom_ids stand more than once: output line 1 and error line 3.",
    one_replaced: "have no result: ",
    one_not_counted: "There are 2 output lines, the receipt says 1.",
    no_json: "1 lines of the output file are not JSON objects.",
}


@pytest.mark.parametrize("damage", FAULTS, ids=lambda damage: damage.__name__)
def test_what_differs_is_said(scene: Scene, damage: Callable[[Scene], None]) -> None:
    damage(scene)

    assert any(FAULTS[damage] in found for found in scene.differences())


def test_a_file_that_is_not_given_is_asked_for_and_one_too_many_is_said(scene: Scene) -> None:
    assert "give it with --output" in scene.differences(output=None)[0]
    scene.receipt["error"] = None

    assert any("names no error file" in found for found in scene.differences())


def test_a_retry_need_not_answer_what_its_file_holds_beside(scene: Scene) -> None:
    scene.input.write_bytes(scene.input.read_bytes() + b'\n{"custom_id": "d"}\n{"custom_id": "e"}')
    scene.tell()
    assert scene.differences() != []

    scene.receipt["retry_of"] = "batch_y"

    assert scene.differences() == []


def test_only_the_first_of_many_are_named(scene: Scene) -> None:
    scene.output.write_bytes(result("a") + result("b") + b"".join(map(result, "defghijklmno" * 2)))
    scene.receipt["request_counts"] |= {"total": 28, "completed": 26}
    scene.tell()

    (found,) = scene.differences()

    assert found.startswith("12 custom_ids stand more than once: ")
    assert found.endswith("; ….")


def test_a_file_of_too_few_lines_is_said_once_with_the_missing_rows_in_order(scene: Scene) -> None:
    names = [f"r{n}" for n in range(40)]
    scene.input.write_bytes(b"\n".join(json.dumps({"custom_id": name}).encode() for name in names))
    scene.output.write_bytes(b"".join(map(result, names)))
    scene.error.write_bytes(b"")
    scene.receipt["request_counts"] |= {"total": 40, "completed": 40, "failed": 0}
    scene.receipt["never_ran"] = 0
    scene.tell()
    scene.output.write_bytes(b"".join(map(result, names[:37])))

    found = scene.differences()

    assert found[-1] == "3 custom_ids have no result: input line 38; input line 39; input line 40."
    assert [sentence for sentence in found if "lines" in sentence] == [
        "The output file's lines: 37, the receipt says 40."
    ]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"object": "batch"}', '{"object": "batch.receipt"}']
)
def test_what_is_no_receipt_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "receipt.json"
    path.write_text(content)

    with pytest.raises(CommandFailed):
        read_receipt(path)
