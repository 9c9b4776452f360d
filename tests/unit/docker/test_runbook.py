"""The runbook names settings, commands, files and alarms that there are."""

import re
from pathlib import Path

import typer

from cli.main import app
from tests.unit.docker.test_deployments import SETTINGS, names

DOCS = Path(__file__).parents[3] / "docs"
RUNBOOK = (DOCS / "operations.md").read_text(encoding="utf-8")


def test_every_setting_it_names_exists_and_none_is_left_out() -> None:
    named = set(re.findall(r"`([A-Z]+(?:__[A-Z_]+)?)(?:=[^`]*)?`", RUNBOOK))
    there = set[str]().union(*(names(settings) for settings in SETTINGS.values()))
    table = RUNBOOK[RUNBOOK.index("### Settings") : RUNBOOK.index("## Stop, restart, upgrade")]

    assert {name for name in named if "__" in name} - {"LEASES__"} <= there
    # The engine that only echoes is for trials.
    assert there - {"MODEL__ENGINE"} <= set(re.findall(r"`([A-Z_]+)`", table))


def test_every_command_it_gives_exists() -> None:
    commands = typer.main.get_group(app).commands

    for command, after in re.findall(r"gristmill ([a-z]+)(?: ([a-z-]+))?", RUNBOOK):
        assert command in commands, command
        groups = getattr(commands[command], "commands", None)
        assert groups is None or after in groups, (command, after)


def test_every_link_leads_somewhere() -> None:
    anchors = {
        re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", RUNBOOK, re.MULTILINE)
    }

    for target in re.findall(r"\]\(([^)]+)\)", RUNBOOK):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        else:
            assert (DOCS / target).exists(), target
