"""What is counted is documented, and what alarms wait for is there before it happens."""

from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from jobs import metrics

_PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_every_metric_of_the_process_is_in_the_documentation() -> None:
    assert metrics.LEASES_LOST is not None  # it is the import that registers them
    page = _PAGE.read_text(encoding="utf-8")
    names = {family.name for family in REGISTRY.collect() if family.name.startswith("gristmill_")}

    undocumented = {name for name in names if name.removeprefix("gristmill_") not in page}

    assert undocumented == set()
    assert "gristmill_leases_lost" in names


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("rescued_total", {"worker": "dead"}),
        ("rescued_total", {"worker": "spared"}),
        ("leases_lost_total", {"reason": "passed on"}),
        ("leases_lost_total", {"reason": "incarnation over"}),
    ],
    ids=str,
)
def test_the_first_of_its_kind_is_an_increase(name: str, labels: dict[str, str]) -> None:
    assert metrics.RESCUED is not None

    assert REGISTRY.get_sample_value(f"gristmill_{name}", labels) is not None
