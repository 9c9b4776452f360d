"""python -m engine generate --model M --workload FILE: the engine alone, offline."""

import argparse
import os
import sys
from pathlib import Path

from engine.config import DTYPES
from engine.errors import EngineError
from engine.llm import LLM
from engine.progress import Progress
from engine.workload import completion_lines, read_workload


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    try:
        _generate(args)
    except (EngineError, OSError) as error:
        _tell(f"error: {error}")
        return 1
    return 0


def _generate(args: argparse.Namespace) -> None:
    items = read_workload(args.workload)
    llm = LLM(args.model, device=args.device, precision=args.precision, on_report=_tell)
    progress = Progress(len(items), sys.stderr)
    completions = llm.generate([item.request for item in items], on_completion=progress.update)
    progress.finish()
    lines = completion_lines(items, completions)
    if args.output is None:
        sys.stdout.writelines(lines)
        return
    # Written beside its place and moved there: whoever finds the file finds all of it.
    unfinished = args.output.with_name(args.output.name + ".part")
    with unfinished.open("w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(unfinished, args.output)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine", description=__doc__)
    commands = parser.add_subparsers(required=True)
    generate = commands.add_parser("generate", help="run a workload and write its completions")
    generate.add_argument("--model", required=True, help="a folder, a .gguf file, or a name")
    generate.add_argument("--workload", required=True, type=Path, help="JSONL, one request a line")
    generate.add_argument("--output", type=Path, help="JSONL in input order; default: stdout")
    generate.add_argument("--precision", default="auto", choices=["auto", *DTYPES])
    generate.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N")
    return parser


if __name__ == "__main__":
    sys.exit(main())
