"""The caps on lines, on files made for them."""

from pathlib import Path

import pytest

from scripts.line_caps import excesses


def function_of(lines: int) -> str:
    return "def f():\n" + "    pass\n" * (lines - 1)


@pytest.mark.parametrize(("lines", "found"), [(40, 0), (41, 1)])
def test_function_may_have_forty_lines(tmp_path: Path, lines: int, found: int) -> None:
    file = tmp_path / "module.py"
    file.write_text(function_of(lines), encoding="utf-8")

    assert len(list(excesses(file))) == found


@pytest.mark.parametrize(("lines", "found"), [(350, 0), (351, 1)])
def test_file_may_have_three_hundred_and_fifty_lines(
    tmp_path: Path, lines: int, found: int
) -> None:
    file = tmp_path / "module.py"
    file.write_text("x = 1\n" * lines, encoding="utf-8")

    assert len(list(excesses(file))) == found


def test_kernel_may_be_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("kernels/attention.py")
    file.parent.mkdir()
    file.write_text(function_of(120), encoding="utf-8")

    assert list(excesses(file)) == []


def test_excess_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("x = 1\n" + function_of(50), encoding="utf-8")

    assert list(excesses(file)) == [f"{file}:2: f has 50 lines, at most 40"]
