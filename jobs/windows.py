"""A batch's completion window as people write it: `24h`, `7d`."""

import re
from datetime import timedelta

_WINDOW = re.compile(r"([0-9]{1,4})([hd])")


def parse(text: str) -> timedelta:
    """Raises ValueError, which says what a window looks like."""
    parts = _WINDOW.fullmatch(text)
    if parts is None or int(parts[1]) == 0:
        raise ValueError("must be 1 to 9999 hours or days, like '24h' or '7d'")
    number = int(parts[1])
    return timedelta(hours=number) if parts[2] == "h" else timedelta(days=number)
