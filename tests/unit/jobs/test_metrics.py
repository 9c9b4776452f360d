"""What is counted is documented."""

from pathlib import Path

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
