"""python -m engine generate --model M --workload FILE: the engine alone, offline."""

import argparse
import os
import sys
from pathlib import Path
from typing import Literal, TypeAlias

from engine.completion_lines import completion_lines
from engine.config import DTYPES, EngineSettings
from engine.errors import EngineError
from engine.llm import LLM
from engine.progress import Progress
from engine.workload import read_workload

SizeName: TypeAlias = Literal[
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "memory_fraction",
    "kv_cache_bytes",
    "block_size",
    "threads",
]
SIZES: dict[SizeName, tuple[type, str]] = {
    "max_model_len": (int, "tokens of prompt and completion together"),
    "max_num_seqs": (int, "sequences of one step"),
    "max_num_batched_tokens": (int, "tokens of one step"),
    "memory_fraction": (float, "of the card's memory, for weights, KV and activations"),
    "kv_cache_bytes": (int, "of KV, instead of what memory_fraction leaves"),
    "block_size": (int, "tokens of a KV block"),
    "threads": (int, "that compute on a CPU, instead of one for each CPU that may be used"),
}


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
    llm = LLM(args.model, on_report=_tell, **_settings(args))
    requests = [request for item in items for request in item.requests()]
    progress = Progress(len(requests), sys.stderr)
    completions = llm.generate(requests, on_completion=progress.update)
    progress.finish()
    lines = completion_lines(items, {each.request_id: each for each in completions})
    if args.output is None:
        sys.stdout.writelines(lines)
        return
    # Written beside its place and moved there: whoever finds the file finds all of it.
    unfinished = args.output.with_name(args.output.name + ".part")
    with unfinished.open("w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(unfinished, args.output)


def _settings(args: argparse.Namespace) -> EngineSettings:
    settings: EngineSettings = {
        "device": args.device,
        "precision": args.precision,
        "deterministic": args.deterministic,
    }
    for name in SIZES:
        if getattr(args, name) is not None:
            settings[name] = getattr(args, name)
    return settings


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
    generate.add_argument(
        "--deterministic",
        action="store_true",
        help="refuse to run where a request's tokens could depend on others",
    )
    for name, (kind, words) in SIZES.items():
        generate.add_argument(f"--{name.replace('_', '-')}", type=kind, help=words)
    return parser


if __name__ == "__main__":
    sys.exit(main())
