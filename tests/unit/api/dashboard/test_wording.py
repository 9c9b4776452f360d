import pytest

from api.dashboard import wording


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "—"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 m 00 s"),
        (3_599, "59 m 59 s"),
        (7_500, "2 h 05 m"),
        (90_000, "1 d 01 h"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float | None, said: str):
    assert wording.duration(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0"), (999_999, "999,999"), (1_234_567, "1.23 M"), (2e9, "2.00 B")]
)
def test_a_gauge_shortens_what_would_not_fit(number: float, said: str):
    assert wording.figure(number) == said


@pytest.mark.parametrize(
    ("per_second", "said"),
    [(None, "—"), (0.0, "0"), (3.14, "3.1"), (41.7, "42"), (6_412.4, "6,412")],
)
def test_a_small_rate_keeps_a_decimal(per_second: float | None, said: str):
    assert wording.rate(per_second) == said


@pytest.mark.parametrize(("share", "said"), [(None, "—"), (0.0, "0 %"), (0.835, "84 %")])
def test_a_share_is_said_in_percent(share: float | None, said: str):
    assert wording.percent(share) == said
