"""Judges every line of a batch's file in one pass, and keeps what was wrong.

`Findings` is `errors.data`: bounded, in line order, with a last entry that gives the total.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from jobs.lines import MAX_LINE_BYTES, BadLine, InputLine, is_blank, read_line
from jobs.model_names import no_such_model

MAX_LISTED = 100
_NAMES_REMEMBERED = 64  # of models
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)  # not frozen: to make it would cost three times as much
class Judged:
    """One line that is not blank.  `index` counts those, `number` counts all, from 1."""

    index: int
    number: int
    size: int
    content: InputLine | BadLine


def split_lines(chunks: Iterable[bytes], *, limit: int) -> Iterator[bytes]:
    """Split on byte 0x0A alone.  A line over `limit` bytes comes cut to `limit` + 1.

    A carriage return before the line feed stays: it is white space to JSON.
    """
    held = bytearray()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            held += piece[: limit + 1 - len(held)]
            yield bytes(held)
            held.clear()
        held += rest[: limit + 1 - len(held)]
    if held:
        yield bytes(held)


class Judge:
    """Reads lines against the batch's endpoint and against the model of the first good one."""

    def __init__(
        self, *, endpoint: str, known_models: "ModelLookup", max_line_bytes: int = MAX_LINE_BYTES
    ) -> None:
        self._endpoint = endpoint
        self._max_line_bytes = max_line_bytes
        self._known_models = known_models
        self.model: str | None = None

    def judge(self, lines: Iterable[bytes]) -> Iterator[Judged]:
        index = 0
        for number, raw in enumerate(lines, start=1):
            raw = raw.removeprefix(_BOM) if number == 1 else raw
            if is_blank(raw):
                continue
            content = read_line(raw, endpoint=self._endpoint, max_bytes=self._max_line_bytes)
            if isinstance(content, InputLine):
                content = self._check_model(content)
            yield Judged(index, number, len(raw), content)
            index += 1

    def _check_model(self, line: InputLine) -> InputLine | BadLine:
        if not self._known_models(line.model):
            message = self._known_models.missing(line.model)
            return BadLine("model_not_found", message, "body.model", line.custom_id)
        self.model = self.model or line.model
        if line.model != self.model:
            message = f"A batch has one model: this line names another than '{self.model}'."
            return BadLine("model_mismatch", message, "body.model", line.custom_id)
        return line


class ModelLookup:
    """Asks once for each of the last names: a file seldom has two, and may have a million."""

    def __init__(
        self, exists: Callable[[str], bool], names: Callable[[], Sequence[str]] = tuple
    ) -> None:
        remembered = lru_cache(_NAMES_REMEMBERED)
        self._exists = remembered(exists)
        self._missing = remembered(lambda name: no_such_model(name, names()))

    def __call__(self, name: str) -> bool:
        return self._exists(name)

    def missing(self, name: str) -> str:
        """What to say of a model that is not there."""
        return self._missing(name)


class Findings:
    """The bad lines of a file: how many, and the first of them in line order."""

    def __init__(self) -> None:
        self.total = 0
        self._first = list[tuple[int, int, BadLine]]()  # a heap, the latest line on top

    def add(self, number: int, bad: BadLine) -> None:
        self.total += 1
        entry = (-number, -self.total, bad)
        if len(self._first) < MAX_LISTED:
            heapq.heappush(self._first, entry)
        else:
            heapq.heappushpop(self._first, entry)

    def as_json(self) -> list[dict[str, object]]:
        listed = [
            _entry(bad.code, bad.message, bad.param, -number)
            for number, _, bad in sorted(self._first, key=lambda entry: (-entry[0], -entry[1]))
        ]
        if self.total > MAX_LISTED:
            message = f"{self.total:,} lines are invalid; the first {MAX_LISTED} are listed."
            listed.append(_entry("too_many_errors", message, None, None))
        return listed


def refused_file(code: str, message: str) -> list[dict[str, object]]:
    """`errors.data` of a file that is wrong as a whole."""
    return [_entry(code, message, None, None)]


def _entry(code: str, message: str, param: str | None, line: int | None) -> dict[str, object]:
    return {"code": code, "message": message, "param": param, "line": line}
