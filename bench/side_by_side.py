"""Our engine and a peer by turns on one workload: `gristmill bench peer`.

The best run of each is set against the same floor.  The peer is a command, for it lives in an
environment of its own; `bench/peers` has some.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.ceiling import peak_gflops
from bench.engine import EXACT
from bench.floor import Shape, Work, operations
from bench.forced import agreement, our_preferences, their_preferences
from bench.peers.asked import Asked, read_asked
from bench.reference import Answer, compare, dense_model
from bench.trials import Command, Side, Tokens, by_turns, preferences
from bench.workloads import workload_file
from engine.opening import open_model
from engine.weights.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """peer: a command like those of `bench.peers`
    rounds: how often each runs; its best counts
    check: how many requests are compared with the reference, spread over the workload
    peak_s: seconds to look for the machine's best with each shape of a product
    """

    model: str
    workload: str
    peer: Command
    precision: str = "fp32"
    rounds: int = 3
    check: int = 6
    peak_s: float = 0.8

    @property
    def ours(self) -> Command:
        named = ("--model", self.model, "--precision", self.precision)
        return [sys.executable, "-m", "bench.once", *named]

    def sample(self, count: int) -> Sequence[int]:
        """The places of those compared, of `count`."""
        return range(count)[:: max(1, count // self.check)][: self.check]


def side_by_side(contest: Contest, *, tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure by turns, check, and return the figures.  Raises BenchFailed or EngineError.

    In fp32 our tokens must be the reference's.  Of narrower precisions it is told at how many
    places of the workload's own text each side prefers the reference's token.
    """
    checkpoint, tokenizer = open_model(contest.model)
    with TemporaryDirectory(prefix="gristmill-bench-") as name:
        file = workload_file(contest.workload, tokenizer, Path(name))
        requests = read_asked(file)
        tell("measuring the machine")
        peaks = [peak_gflops(for_seconds=contest.peak_s)]
        ours, peer = by_turns((contest.ours, contest.peer), file, rounds=contest.rounds, tell=tell)
        peaks.append(peak_gflops(for_seconds=contest.peak_s))
        tell("comparing with the reference")
        checks = _checks(contest, checkpoint, requests, ours.answers, Path(name))
    works = [Work(each.prompt, each.max_tokens) for each in requests]
    floor = operations(Shape.of(checkpoint.config), works).seconds(gflops=max(peaks))
    return {
        "workload": file.stem,
        "precision": contest.precision,
        "peak_gflops": round(max(peaks), 1),
        "floor_s": round(floor, 2),
        **_figures(ours, peer, floor),
        **checks,
    }


def _figures(ours: Side, peer: Side, floor: float) -> dict[str, Any]:
    return {
        "ours": ours.figures(floor),
        "peer": peer.figures(floor),
        "peer_over_ours": round(min(peer.walls) / min(ours.walls), 3),
        "equal_requests": sum(a == b for a, b in zip(ours.answers, peer.answers, strict=True)),
    }


def _checks(
    contest: Contest,
    checkpoint: Checkpoint,
    requests: Sequence[Asked],
    tokens: Tokens,
    folder: Path,
) -> dict[str, Any]:
    reference, exact = dense_model(checkpoint), contest.precision in EXACT
    sample = contest.sample(len(requests))
    answers = [Answer(str(place), requests[place].prompt, tokens[place]) for place in sample]
    found = {"reference": asdict(compare(reference, answers, refuse=exact))}
    if exact:
        return found
    texts = [requests[place].prompt for place in sample]
    right = their_preferences(reference, texts)
    ours = our_preferences(checkpoint, texts, precision=contest.precision, device=reference.device)
    peers = preferences(contest.peer, texts, folder)
    return found | {
        "our_teacher_forced": asdict(agreement(texts, ours, right)),
        "peer_teacher_forced": asdict(agreement(texts, peers, right)),
    }
