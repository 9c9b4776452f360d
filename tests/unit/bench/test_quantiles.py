import pytest

from bench.quantiles import milliseconds, quantile


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.95, 4), (1.0, 4)]
)
def test_a_quantile_is_the_least_value_that_enough_do_not_exceed(share, value):
    assert quantile([4, 2, 1, 3], share) == value


def test_seconds_are_reported_in_milliseconds():
    assert milliseconds([0.001, 0.0024, 0.1]) == {"p50_ms": 2.4, "p95_ms": 100.0}
