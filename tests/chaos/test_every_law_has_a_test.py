"""No law without a test: the marker `law(name)` says which test proves which.

Properties P1 to P34 and invariants I1 to I12 stand in docs/guarantees.md.  The marks are read from
the source, so that this needs no collection of its own.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_PAGE = _TESTS.parent / "docs/guarantees.md"
_ROW = re.compile(r"^\| ([PI]\d+) \|.*\| (.*) \|$", re.MULTILINE)
_LAWS = [f"P{n}" for n in range(1, 35)] + [f"I{n}" for n in range(1, 13)]


def marks() -> Iterator[tuple[str, str]]:
    """Each law that a test is marked with, and the test."""
    for path in sorted(_TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for law in _laws(node):
                    yield law, f"{path.relative_to(_TESTS)}::{node.name}"


def _laws(test: ast.FunctionDef) -> Iterator[str]:
    """Those in its decorators, of which one may mark a parameter."""
    for decorator in test.decorator_list:
        for node in ast.walk(decorator):
            match node:
                case ast.Call(func=ast.Attribute(attr="law"), args=[ast.Constant(value=str(law))]):
                    yield law


@pytest.fixture(scope="module")
def proofs() -> dict[str, list[str]]:
    found = dict[str, list[str]]()
    for law, test in marks():
        found.setdefault(law, []).append(test)
    return found


def test_every_property_and_invariant_has_a_test(proofs: dict[str, list[str]]) -> None:
    assert [law for law in _LAWS if law not in proofs] == []


def test_no_mark_names_a_law_that_is_none(proofs: dict[str, list[str]]) -> None:
    assert {law: proofs[law] for law in proofs if law not in _LAWS} == {}


def test_the_page_of_guarantees_shows_each_law_by_tests_that_are_marked_with_it(
    proofs: dict[str, list[str]],
) -> None:
    shown = {law: set(re.findall(r"`(.+?)`", cell)) for law, cell in _rows()}

    assert [law for law in _LAWS if not shown.get(law)] == []
    assert [pair for pair in _pairs(shown) if pair[1] not in proofs[pair[0]]] == []


def _pairs(shown: dict[str, set[str]]) -> list[tuple[str, str]]:
    return [(law, test) for law, tests in shown.items() for test in sorted(tests)]


def _rows() -> list[tuple[str, str]]:
    return _ROW.findall(_PAGE.read_text(encoding="utf-8"))
