"""Quantiles of measured times."""

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that at least `share` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """p50 and p95, as figures are reported."""
    return {
        "p50_ms": round(1e3 * quantile(seconds, 0.50), 1),
        "p95_ms": round(1e3 * quantile(seconds, 0.95), 1),
    }
