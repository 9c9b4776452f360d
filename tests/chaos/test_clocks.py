"""Item 12 of the laws: Postgres's clock is the only one that decides.

The workers of this folder's stacks run with clocks that are hours off; here stands who may ask his
own clock at all.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]
_PROGRAMS = ("api", "jobs", "worker")

# What they do with it is shown to people and compared with nothing.
_MAY_ASK = {
    "worker/inference/translation.py": "`created` in an answer",
}
_WALL_CLOCKS = {
    ("time", "time"),
    ("time", "time_ns"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
}


def wall_clock_calls(path: Path) -> Iterator[int]:
    """The lines on which a module asks the time of day."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
                if (owner, name) in _WALL_CLOCKS:
                    yield node.lineno
            case ast.ImportFrom(module="time", names=names):
                if any(alias.name in ("time", "time_ns") for alias in names):
                    yield node.lineno


def test_no_process_asks_its_own_clock_what_time_it_is() -> None:
    askers = {
        f"{path.relative_to(_REPOSITORY)}:{line}"
        for program in _PROGRAMS
        for path in (_REPOSITORY / program).rglob("*.py")
        if str(path.relative_to(_REPOSITORY)) not in _MAY_ASK
        for line in wall_clock_calls(path)
    }

    assert askers == set()
