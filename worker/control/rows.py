"""From a judged line to what planning keeps of it, so that its parsed body is dropped at once.

A window of parsed bodies would take ten times the memory of its lines, and most of planning's time
would go to the collector that walks them.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from jobs.fairness import cost_of
from jobs.lines import BadLine
from jobs.planning import RequestRow
from jobs.requests import expected_output_tokens
from worker.control import grouping
from worker.control.grouping import PlannedRow
from worker.control.validation import Judged

# What memory holds of a file at one time: parsed lines take three times their bytes, and a line of
# three bytes a row's worth all the same.
WINDOW_BYTES = 8 * 2**20
WINDOW_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """One line that cannot run, and why."""

    request: RequestRow
    bad: BadLine


Window = list[PlannedRow | RefusedRow]


def windows(judged: Iterable[Judged], *, salt: str) -> Iterator[Window]:
    """Runs of rows that fit a window, and of one row at least.  `salt`: the tenant's."""
    salted = grouping.salted(salt)
    window, size = Window(), 0
    for line in judged:
        if window and (size + line.size > WINDOW_BYTES or len(window) == WINDOW_ROWS):
            yield window
            window, size = Window(), 0
        window.append(_row(line, salted))
        size += line.size
    if window:
        yield window


def _row(line: Judged, salted: "hashlib.blake2b") -> PlannedRow | RefusedRow:
    content = line.content
    if isinstance(content, BadLine):
        return RefusedRow(RequestRow(line.index, line.number, content.custom_id), content)
    body = orjson.dumps(content.body)
    custom_id = orjson.dumps(content.custom_id)
    text = grouping.prompt_text(content.body)
    digest = hashlib.blake2b(body, digest_size=16).hexdigest()
    return PlannedRow(
        RequestRow(line.index, line.number, content.custom_id, digest),
        text,
        grouping.prefix_keys(salted, text),
        cost_of(line.size, expected_output_tokens(content.body)),
        b'{"index":%d,"custom_id":%b,"body":%b}\n' % (line.index, custom_id, body),
    )
