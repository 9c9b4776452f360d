"""One run of a peer: loaded, warmed up, timed on a workload; one line of JSON says how it was.

With --forced it says instead which token it would choose after each of the prompts' tokens.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from bench.figures import Pass
from bench.peers.asked import Asked, read_asked, shared_prefixes, warm_up
from bench.stopwatch import Stopwatch, peak_rss_gib


class Peer(Protocol):
    def generate(self, requests: Sequence[Asked]) -> list[list[int]]:
        """The output tokens of all requests, run together, in order."""

    def preferred(self, prompt: list[int]) -> list[int]:
        """The token that it would choose after each of the prompt's."""


def peer_parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """With the options that every peer has."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.peers.{name}", description=about)
    parser.add_argument("--model", required=True, help="a folder, in the peer's own format")
    parser.add_argument("--workload", required=True, type=Path, help="of python -m bench.workloads")
    parser.add_argument("--answers", type=Path, help="file for the tokens, a line of JSON each")
    parser.add_argument(
        "--batched-tokens", type=int, default=512, help="of one step (default: %(default)s)"
    )
    parser.add_argument(
        "--seqs", type=int, default=64, help="sequences of one step (default: %(default)s)"
    )
    parser.add_argument(
        "--prime",
        action="store_true",
        help="compute each shared prefix alone first, within the time",
    )
    parser.add_argument(
        "--forced",
        action="store_true",
        help="no run: say which token it prefers after each of the prompts'",
    )
    return parser


def run_trial(name: str, load: Callable[[], Peer], args: argparse.Namespace) -> None:
    requests = read_asked(args.workload)
    peer = load()
    if args.forced:
        _write(args.answers, [peer.preferred(each.prompt) for each in requests])
        return
    peer.generate([warm_up(requests)])
    with Stopwatch() as stopwatch:
        if args.prime:
            for prefix in shared_prefixes(requests):
                peer.generate([Asked(prefix, max_tokens=1)])
        answers = peer.generate(requests)
    _require_complete(requests, answers)
    _write(args.answers, answers)
    measured = Pass(
        requests=len(requests),
        prompt_tokens=sum(len(each.prompt) for each in requests),
        output_tokens=sum(map(len, answers)),
        wall_s=stopwatch.wall_s,
        cpu_s=stopwatch.cpu_s,
        others_cpu_s=stopwatch.others_cpu_s,
        peak_rss_gib=peak_rss_gib(),
    )
    named = {"engine": name, "model": Path(args.model).name, "workload": args.workload.stem}
    print(json.dumps({**named, "primed": args.prime, **measured.figures()}))


def _require_complete(requests: Sequence[Asked], answers: Sequence[list[int]]) -> None:
    for number, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        if len(answer) != request.max_tokens:
            sys.exit(f"request {number} has {len(answer)} tokens instead of {request.max_tokens}")


def _write(file: Path | None, lines: Sequence[list[int]]) -> None:
    if file is not None:
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
