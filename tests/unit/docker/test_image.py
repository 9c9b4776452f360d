"""The image has all that our processes import."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.unit.docker import deployments

ROOT = Path(__file__).parents[3]


def copied() -> set[str]:
    lines = [line.split() for line in deployments.dockerfile()]
    return {name for words in lines if words[:1] == ["COPY"] for name in words[1:-1]}


def imported_by(package: str) -> Iterator[str]:
    """The first name of whatever any module of it imports."""
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


def test_what_is_copied_imports_nothing_of_ours_that_is_not() -> None:
    packages = {name for name in copied() if (ROOT / name).is_dir()}
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    needed = {name for package in packages for name in imported_by(package)} & ours

    assert {"api", "cli", "worker"} <= packages
    assert needed <= packages


def test_everything_that_is_copied_is_there() -> None:
    assert [name for name in copied() if not (ROOT / name).exists()] == []
