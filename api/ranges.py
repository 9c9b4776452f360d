"""Which bytes of a file a GET asks for (RFC 9110, section 14)."""

import re
from typing import NamedTuple

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class Span(NamedTuple):
    """The bytes [start, end)."""

    start: int
    end: int


class Unsatisfiable(Exception):
    """The range begins behind the file's end."""


def requested(header: str | None, size: int) -> Span | None:
    """The one range asked for, or None for all of it: also for several, or what is no range.

    Raises Unsatisfiable.
    """
    parts = _RANGE.fullmatch(header or "")
    if parts is None or parts[0] == "bytes=-":
        return None
    first, last = parts.groups()
    if not first:  # the last bytes
        span = Span(max(0, size - int(last)), size)
    elif last and int(last) < int(first):
        return None
    else:
        span = Span(int(first), min(int(last) + 1, size) if last else size)
    if span.start >= span.end:
        raise Unsatisfiable
    return span
