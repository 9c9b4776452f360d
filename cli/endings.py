"""How a batch has ended: the exit code, and what there is to say of it.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from cli.batch_faults import sentences

TERMINAL = ("completed", "failed", "expired", "cancelled")


class Ending(IntEnum):
    """The exit code.  1 is every error of the command itself."""

    COMPLETED = 0
    SOME_FAILED = 3
    FAILED = 4
    EXPIRED = 5
    CANCELLED = 6


def ending_of(batch: Mapping[str, Any]) -> Ending:
    match batch["status"]:
        case "completed":
            return Ending.SOME_FAILED if batch["request_counts"]["failed"] else Ending.COMPLETED
        case "failed":
            return Ending.FAILED
        case "expired":
            return Ending.EXPIRED
        case _:
            return Ending.CANCELLED


def report(
    batch: Mapping[str, Any], receipt: Mapping[str, Any], written: Sequence[Path]
) -> Iterator[str]:
    """What became of the rows, where they are, what was wrong with the file, and what to do."""
    counts = batch["request_counts"]
    never_ran = receipt["never_ran"]
    yield (
        f"{batch['status']}: {counts['completed']:,} completed, {counts['failed']:,} failed,"
        + (f" {never_ran:,} never ran," if never_ran else "")
        + f" of {counts['total']:,}"
    )
    if written:
        yield f"results: {', '.join(map(str, written))}"
    yield from sentences(batch)
    match ending_of(batch):
        case Ending.FAILED:
            yield "Nothing ran. Correct the file and submit it again; as it is, with --again."
        case Ending.EXPIRED | Ending.CANCELLED:
            yield (
                f"`gristmill batches retry {batch['id']}` runs the rows that have no result;"
                " --again runs the whole file once more."
            )
