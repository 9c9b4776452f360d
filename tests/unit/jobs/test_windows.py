from datetime import timedelta

import pytest

from jobs import windows


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1h", timedelta(hours=1)),
        ("24h", timedelta(days=1)),
        ("7d", timedelta(days=7)),
        ("9999d", timedelta(days=9999)),
    ],
)
def test_a_window_is_hours_or_days(text: str, length: timedelta) -> None:
    assert windows.parse(text) == length


@pytest.mark.parametrize(
    "text", ["", "h", "24", "0h", "-1h", "1.5h", "24 h", "24h\n", "10000d", "٣h"]
)
def test_anything_else_is_no_window(text: str) -> None:
    with pytest.raises(ValueError, match="hours or days"):
        windows.parse(text)
