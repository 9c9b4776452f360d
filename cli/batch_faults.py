"""What is wrong with a batch's file, a sentence for each kind of fault.  Pure.

Lines that have the same fault are named together: a file whose every line names a model that is not
there has one fault, not a million.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

_MAX_KINDS = 10
_MAX_RANGES = 5


def sentences(batch: Mapping[str, Any]) -> Iterator[str]:
    """Those of `errors` in a Batch object; of lines' faults at most ten, and how many more."""
    lines_of = dict[str, list[int]]()
    of_file = list[str]()
    for fault in (batch["errors"] or {"data": []})["data"]:
        if fault["line"] is None:
            of_file.append(fault["message"])
        else:
            lines_of.setdefault(fault["message"], []).append(fault["line"])
    for message in list(lines_of)[:_MAX_KINDS]:
        yield f"{_place(lines_of[message])}: {message}"
    if len(lines_of) > _MAX_KINDS:
        yield f"and {len(lines_of) - _MAX_KINDS:,} other faults of lines"
    yield from of_file


def _place(lines: list[int]) -> str:
    ranges = list(_ranges(lines))
    named = ", ".join(ranges[:_MAX_RANGES]) + (", …" if len(ranges) > _MAX_RANGES else "")
    return f"{'lines' if len(lines) > 1 else 'line'} {named}"


def _ranges(lines: list[int]) -> Iterator[str]:
    """`1-3` and `7` of 1, 2, 3, 7."""
    numbered = enumerate(sorted(set(lines)))
    for _, run in groupby(numbered, key=lambda pair: pair[1] - pair[0]):
        numbers = [line for _, line in run]
        first, last = numbers[0], numbers[-1]
        yield f"{first:,}" if first == last else f"{first:,}-{last:,}"
