"""python -m bench: the benchmarks in their short form, one line of JSON each."""

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.engine import Options, bench_engine
from bench.errors import BenchFailed
from bench.queue import Load, bench_queue
from cli.errors import CommandFailed
from engine.errors import EngineError

_MODEL = "smollm2-135m-instruct"
_LOAD = Load(20_000)


def main() -> None:
    for measure in (
        partial(bench_engine, _MODEL, "W1", Options()),
        partial(bench_queue, _LOAD, workers=1),
    ):
        print(json.dumps(_figures(measure)), flush=True)


def _figures(measure: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Exits with a sentence where there are none."""
    try:
        return measure(tell=_tell)
    except (BenchFailed, CommandFailed, EngineError) as error:
        sys.exit(f"bench: no figures: {error}")


def _tell(doing: str) -> None:
    sys.stderr.write(f"{doing} …\n")


if __name__ == "__main__":
    main()
