"""Our engine once on a workload, told as `bench.peers` tell theirs: one line of JSON.

    python -m bench.once --model M --workload FILE [--precision P] [--answers FILE]

`gristmill bench engine` measures the machine and checks the tokens as well.
"""

import argparse
import json
import sys
from pathlib import Path

from bench.engine_run import open_task, run_once
from bench.errors import BenchFailed
from bench.stopwatch import peak_rss_gib
from engine.errors import EngineError


def main(arguments: list[str] | None = None) -> None:
    args = _parser().parse_args(arguments)
    try:
        _run(args)
    except (BenchFailed, EngineError) as error:
        sys.exit(f"no figures: {error}")


def _run(args: argparse.Namespace) -> None:
    task = open_task(args.model, args.workload)
    run = run_once(args.model, task, precision=args.precision)
    if args.answers is not None:
        lines = [json.dumps(completion.token_ids) + "\n" for completion in run.completions]
        args.answers.write_text("".join(lines), encoding="utf-8")
    named = {"engine": "gristmill", "model": Path(args.model).name}
    named |= {"workload": Path(args.workload).stem, "precision": args.precision}
    print(json.dumps({**named, **run.figures(task, peak_rss_gib=peak_rss_gib())}))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.once", description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--answers", type=Path)
    return parser


if __name__ == "__main__":
    main()
