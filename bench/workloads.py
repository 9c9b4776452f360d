"""The three workloads that every engine is measured on, the same on every machine.

W1: 64 requests behind one system prompt of 512 tokens
W2: 64 requests behind four system prompts of 1,024 tokens, interleaved
W3: 64 requests that share nothing, of 32 to 400 tokens

Behind a system prompt each has 32 to 96 tokens of its own.  Each is to give 16 to 128 tokens, with
a mean of about 64, exactly: greedily, and past the model's end token, so that every engine has the
same tokens to compute.  The text is that of the licences that every Debian carries.

    python -m bench.workloads MODEL FOLDER
"""

import json
import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.errors import WorkloadUnavailable
from engine.opening import open_model
from engine.requests import Request
from engine.tokenizer import Tokenizer
from engine.workload import read_workload

NAMES = ("W1", "W2", "W3")

_LICENCES = Path("/usr/share/common-licenses")
_SYSTEM_TEXTS = ("GPL-3", "MPL-1.1", "LGPL-2.1", "GFDL-1.3")
_USER_TEXTS = (
    "Apache-2.0",
    "Artistic",
    "CC0-1.0",
    "GPL-1",
    "MPL-2.0",
    "GPL-2",
    "LGPL-3",
    "GFDL-1.2",
)
_SEED = 20261129
_NUM_REQUESTS = 64
_MIN_OUTPUT, _USUAL_OUTPUT, _MAX_OUTPUT = 16, 48, 128

Row = dict[str, Any]
"""One line of a workload file."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Tokens to cut prompts from.  systems: one text each; pool: what users say."""

    systems: list[list[int]]
    pool: list[int]


def write_workloads(tokenizer: Tokenizer, folder: Path) -> dict[str, Path]:
    """Write all three.  Returns their files by name.  Raises WorkloadUnavailable."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, rows in make_workloads(read_texts(tokenizer)).items():
        files[name] = folder / f"{name}.jsonl"
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        files[name].write_text(lines, encoding="utf-8")
    return files


def open_workload(name: str, tokenizer: Tokenizer) -> list[Request]:
    """The requests of a workload file, or of W1, W2 or W3, made on the spot.

    Raises WorkloadUnavailable, or WorkloadUnreadable for a file that is none.
    """
    with TemporaryDirectory(prefix="gristmill-bench-") as folder:
        file = workload_file(name, tokenizer, Path(folder))
        return [item.request for item in read_workload(file)]


def workload_file(name: str, tokenizer: Tokenizer, folder: Path) -> Path:
    """The file of that name, or W1, W2 or W3 written to `folder`.  Raises WorkloadUnavailable."""
    if Path(name).is_file():
        return Path(name)
    if name not in NAMES:
        raise WorkloadUnavailable(f"{name} is no file, and none of {', '.join(NAMES)}")
    return write_workloads(tokenizer, folder)[name]


def read_texts(tokenizer: Tokenizer, *, licences: Path = _LICENCES) -> Texts:
    """Raises WorkloadUnavailable where the licences are not installed."""
    names = (*_SYSTEM_TEXTS, *_USER_TEXTS)
    try:
        texts = [(licences / name).read_text(encoding="utf-8", errors="replace") for name in names]
    except FileNotFoundError as error:
        raise WorkloadUnavailable(
            f"the workloads are made of Debian's licence texts, and {error.filename} is missing: "
            "install the package base-files, or give a workload file made on another machine"
        ) from error
    one_line = [re.sub(r"\s+", " ", text) for text in texts]
    encoded = tokenizer.encode(one_line, add_special_tokens=False)
    users = encoded[len(_SYSTEM_TEXTS) :]
    return Texts(encoded[: len(_SYSTEM_TEXTS)], [token for text in users for token in text])


def make_workloads(texts: Texts) -> dict[str, list[Row]]:
    """All three from one stream of random numbers: to change one would change those after it."""
    rng = random.Random(_SEED)
    systems = texts.systems

    def rows(prefix: Callable[[int], list[int]], longest: int) -> list[Row]:
        return [
            _row(rng, number, prefix=prefix(number), pool=texts.pool, longest=longest)
            for number in range(_NUM_REQUESTS)
        ]

    return {
        "W1": rows(lambda number: systems[0][:512], 96),
        "W2": rows(lambda number: systems[number % 4][:1024], 96),
        "W3": rows(lambda number: [], 400),
    }


def _row(
    rng: random.Random, number: int, *, prefix: list[int], pool: list[int], longest: int
) -> Row:
    length = rng.randint(32, longest)
    start = rng.randrange(0, len(pool) - length)
    output = rng.triangular(_MIN_OUTPUT, _MAX_OUTPUT, _USUAL_OUTPUT)
    return {
        "id": number,
        "prompt_ids": prefix + pool[start : start + length],
        "prefix_len": len(prefix),  # for engines that must be told what is shared
        "max_tokens": round(output),
        "ignore_eos": True,
    }


def main(arguments: list[str]) -> None:
    model, folder = arguments
    _, tokenizer = open_model(model)
    for name, path in write_workloads(tokenizer, Path(folder)).items():
        print(name, path)


if __name__ == "__main__":
    main(sys.argv[1:])
