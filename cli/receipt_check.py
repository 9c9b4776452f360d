"""Holds files against the receipt of their batch, in one pass over each and flat memory.

What is checked: bytes, lines and sha256 of every file; that each custom_id stands once in output
and error file together, and each of the input's does; and that the lines add up to the counts.
"""

import hashlib
from bisect import insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from api.schemas.receipts import ReceiptObject
from cli.errors import CommandFailed
from cli.id_ledger import IdLedger, Stand

_NEVER_RAN = ("batch_cancelled", "batch_expired")
_MAX_NAMED = 10  # custom_ids of one kind of fault; the rest is counted

_WORDS = {"i": "input", "o": "output", "e": "error"}


@dataclass(frozen=True, slots=True)
class Downloads:
    """None: not given."""

    output: Path | None
    error: Path | None
    input: Path | None = None


@dataclass(slots=True)
class _Seen:
    """What the pass over one file found."""

    bytes: int = 0
    lines: int = 0
    sha256: str = ""
    unreadable: int = 0
    unnamed: int = 0  # lines of rows whose custom_id could not be read, or was another's
    never_ran: int = 0


def read_receipt(path: Path) -> dict[str, Any]:
    try:
        receipt = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise CommandFailed(f"{path} cannot be read as a receipt: {error}") from error
    if not isinstance(receipt, dict) or receipt.get("object") != "batch.receipt":
        raise CommandFailed(f"{path} is not a receipt; GET /v1/batches/{{id}}/receipt gives one")
    try:
        ReceiptObject.model_validate(receipt)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise CommandFailed(f"{path} is no whole receipt: {place} is missing or wrong") from error
    return receipt


def differences(receipt: Mapping[str, Any], files: Downloads) -> Iterator[str]:
    """One sentence for each thing that is not as the receipt says."""
    with IdLedger() as ledger:
        yield from _check_input(receipt, files.input, ledger)
        output, error = _Seen(), _Seen()
        yield from _check_result(receipt["output"], files.output, "o", output, ledger)
        yield from _check_result(receipt["error"], files.error, "e", error, ledger)
        if all(
            seen.lines == _told_lines(receipt[word])
            for word, seen in (("output", output), ("error", error))
        ):  # else it has been said already
            yield from _check_counts(receipt, output, error)
        # A retry's file has rows that were not to run again; a failed batch ran none.
        partial = receipt["retry_of"] is not None or receipt["status"] == "failed"
        yield from _check_ids(ledger, may_miss=None if partial else error.unnamed)


def _check_input(receipt: Mapping[str, Any], path: Path | None, ledger: IdLedger) -> Iterator[str]:
    if path is None:
        return
    seen = _Seen()
    for number, line in _lines(path, seen):
        custom_id = _custom_id(_parsed(line.removeprefix(b"\xef\xbb\xbf")))
        if custom_id is not None:
            ledger.add(custom_id, Stand("i", number))
    yield from _check_file("input", receipt["input"], seen)


def _check_result(
    told: Mapping[str, Any] | None, path: Path | None, file: str, seen: _Seen, ledger: IdLedger
) -> Iterator[str]:
    word = _WORDS[file]
    if told is None or path is None:
        if told is not None:
            yield f"The receipt names an {word} file; give it with --{word}."
        if path is not None:
            yield f"The receipt names no {word} file, but one is given."
        return
    for number, line in _lines(path, seen):
        result = _parsed(line)
        if result is None:
            seen.unreadable += 1
            continue
        seen.never_ran += _code(result) in _NEVER_RAN
        custom_id = _custom_id(result)
        if custom_id is None:
            seen.unnamed += 1
        else:
            ledger.add(custom_id, Stand(file, number))
    yield from _check_file(word, told, seen)
    if seen.unreadable:
        yield f"{seen.unreadable:,} lines of the {word} file are not JSON objects."


def _check_file(word: str, told: Mapping[str, Any], seen: _Seen) -> Iterator[str]:
    for name in ("bytes", "lines", "sha256"):
        found = getattr(seen, name)
        if found != told[name]:
            yield f"The {word} file's {name}: {found}, the receipt says {told[name]}."


def _told_lines(file: Mapping[str, Any] | None) -> int:
    return 0 if file is None else int(file["lines"])


def _check_counts(receipt: Mapping[str, Any], output: _Seen, error: _Seen) -> Iterator[str]:
    counts = receipt["request_counts"]
    for what, found, told in (
        ("output lines", output.lines, counts["completed"]),
        ("error lines of rows that ran", error.lines - error.never_ran, counts["failed"]),
        ("error lines of rows that never ran", error.never_ran, receipt["never_ran"]),
        ("lines in all", output.lines + error.lines, counts["total"]),
    ):
        if found != told:
            yield f"There are {found:,} {what}, the receipt says {told:,}."


def _check_ids(ledger: IdLedger, *, may_miss: int | None) -> Iterator[str]:
    """`may_miss`: so many ids of the input need not stand in the results; None: any number."""
    twice, missing = _Named(), _Named()
    for stands in ledger.stands():
        results = [stand for stand in stands if stand.file != "i"]
        if len(results) > 1:
            twice.add(results)
        if not results:
            missing.add(stands[:1])
    if twice.total:
        yield f"{twice.total:,} custom_ids stand more than once: {twice}."
    if may_miss is not None and missing.total > may_miss:
        yield f"{missing.total:,} custom_ids have no result: {missing}."


class _Named:
    """How many there are, and where the first few stand, by file and line."""

    def __init__(self) -> None:
        self.total = 0
        self._first = list[list[Stand]]()

    def add(self, stands: list[Stand]) -> None:
        self.total += 1
        insort(self._first, stands)
        del self._first[_MAX_NAMED:]

    def __str__(self) -> str:
        named = "; ".join(" and ".join(map(_place, stands)) for stands in self._first)
        return named + ("; …" if self.total > len(self._first) else "")


def _place(stand: Stand) -> str:
    return f"{_WORDS[stand.file]} line {stand.number:,}"


def _lines(path: Path, seen: _Seen) -> Iterator[tuple[int, bytes]]:
    """Each line and its number; when all are read, `seen` has what the file is."""
    sha256 = hashlib.sha256()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                sha256.update(line)
                seen.bytes += len(line)
                seen.lines = number
                yield number, line
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}") from error
    seen.sha256 = sha256.hexdigest()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _custom_id(line: dict[str, Any] | None) -> str | None:
    custom_id = None if line is None else line.get("custom_id")
    return custom_id if isinstance(custom_id, str) else None


def _code(result: dict[str, Any]) -> object:
    error = result.get("error")
    return error.get("code") if isinstance(error, dict) else None
