"""Alerts and the dashboard ask for numbers that exist, by labels that these have."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from sqlalchemy import URL

from jobs.database import connect, sessions_of
from jobs.secrets import Secrets
from tests.fixtures.database import cloned
from tests.integration.dashboard.scene import open_scene
from tests.integration.docker.exports import Exports, exports_of

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "docker" / "prometheus"
KUBERNETES = ROOT / "docker" / "kubernetes"
DASHBOARD = ROOT / "docker" / "grafana" / "gristmill.json"
RUNBOOK = ROOT / "docs" / "operations.md"

# What Prometheus itself adds.
ADDED = {"instance", "job"}
# Labels of whose values there are no others than are exported at any time.
CLOSED = {"kind", "priority", "reason", "state", "step", "worker"}


def alerts() -> list[dict[str, Any]]:
    told = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text(encoding="utf-8"))
    return [rule for group in told["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    told = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [panel for panel in told["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[Any]:
    """Each with what its words refer to it by: `{{ $labels.model }}`, `{{model}}`."""
    for rule in alerts():
        words = " ".join(rule["annotations"].values())
        used = set(re.findall(r"\$labels\.(\w+)", words))
        yield pytest.param(rule["expr"], used, id=rule["alert"])
    for panel in panels():
        for target in panel["targets"]:
            used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            name = f"{panel['title']}, {target['refId']}"
            yield pytest.param(target["expr"].replace("$__rate_interval", "5m"), used, id=name)
    scaled = yaml.safe_load((KUBERNETES / "scaling.yaml").read_text(encoding="utf-8"))
    for trigger in scaled["spec"]["triggers"]:
        yield pytest.param(trigger["metadata"]["query"], set(), id="scaling")


@pytest.fixture(scope="module")
def exports(database_template: URL) -> Iterator[Exports]:
    """Of a deployment in which everything is alive and at work."""
    with cloned(database_template) as url:
        engine = connect(url)
        sessions = sessions_of(engine)
        with open_scene(sessions, Secrets(Secrets.generate_key())) as scene:
            scene.worker(model=None)
            scene.shard(scene.batch(total=1), rows=1, owner=scene.worker(stats={"running": 1}))
        yield exports_of(sessions)
        engine.dispose()


def nodes(expression: str) -> list[promql.Expr]:
    found: list[promql.Expr] = []
    promql.walk(promql.parse(expression), found.append)
    return found


@pytest.mark.parametrize(("expression", "used"), [*expressions()])
def test_every_number_and_label_that_is_asked_for_is_exported(
    exports: Exports, expression: str, used: set[str]
) -> None:
    parts = nodes(expression)
    selected = [part for part in parts if isinstance(part, promql.VectorSelector)]
    ours = [part for part in selected if part.name != "ALERTS"]

    known: set[str] = set(ADDED)
    for part in ours:
        assert part.name in exports.labels, part.name
        known |= exports.labels[part.name]
        for matcher in part.matchers.matchers:
            assert matcher.name in exports.labels[part.name], (part.name, matcher.name)
            if matcher.name in CLOSED:
                assert matcher.value in exports.values[matcher.name], matcher
    assert used | grouped(parts) <= known
    assert selected


def grouped(parts: list[promql.Expr]) -> set[str]:
    """The labels that results are grouped or matched by."""
    found: set[str] = set()
    for part in parts:
        if isinstance(part, promql.AggregateExpr) and part.modifier is not None:
            found |= {*part.modifier.labels}
        if isinstance(part, promql.BinaryExpr) and part.modifier is not None:
            found |= {*(part.modifier.matching.labels if part.modifier.matching else ())}
    return found


def test_each_alert_says_how_grave_it_is_and_has_its_section_in_the_runbook() -> None:
    sections = re.findall(r"^#+ (.+)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    names = [rule["alert"] for rule in alerts()]

    told = [section for section in sections if section.startswith("Gristmill")]

    assert sorted(told) == sorted(names)
    for rule in alerts():
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["runbook_url"] == f"docs/operations.md#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"]


def test_each_panel_of_the_dashboard_has_a_place_and_an_id_of_its_own() -> None:
    every = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    taken: set[tuple[int, int]] = set()

    for panel in every:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in every}) == len(every)


def test_the_alerts_examples_have_an_example_of_each() -> None:
    told = (PROMETHEUS / "alerts.test.yaml").read_text(encoding="utf-8")

    fired = set(re.findall(r'alertname="(\w+)"', told))

    assert fired == {rule["alert"] for rule in alerts()}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus")
@pytest.mark.parametrize(
    "arguments", [("check", "config", "prometheus.yaml"), ("test", "rules", "alerts.test.yaml")]
)
def test_prometheus_agrees(arguments: tuple[str, ...]) -> None:
    checked = subprocess.run(
        ["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
