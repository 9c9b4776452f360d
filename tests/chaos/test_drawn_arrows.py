"""The steps that a game may see are those that docs/architecture.md draws."""

import re
from pathlib import Path

import pytest

from tests.chaos.history import JOB_STEPS, SHARD_STEPS

_PAGE = Path(__file__).parents[2] / "docs/architecture.md"
_ARROW = re.compile(r"^ +(\w+) --> (\w+)", re.MULTILINE)


@pytest.mark.parametrize(("of", "steps"), [("a job", JOB_STEPS), ("a shard", SHARD_STEPS)])
def test_the_steps_that_a_game_may_see_are_those_that_are_drawn(
    of: str, steps: set[tuple[str, str]]
) -> None:
    page = _PAGE.read_text(encoding="utf-8")

    drawn = page.split(f"## The states of {of}\n")[1].split("\n## ")[0]

    assert set(_ARROW.findall(drawn)) == steps
