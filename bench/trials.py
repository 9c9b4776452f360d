"""Commands that run a workload and print what it took, one after the other and by turns."""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from bench.errors import BenchFailed

Tokens: TypeAlias = list[list[int]]
"""Of each request, in order."""

Command: TypeAlias = Sequence[str]
"""Takes --workload and --answers, and prints its figures as the last line; see `bench.peers`."""


@dataclass(frozen=True, slots=True)
class Side:
    """The figures of a command's best run, the tokens of that run, and the walls of all."""

    best: dict[str, Any]
    answers: Tokens
    walls: list[float]

    def figures(self, floor: float) -> dict[str, Any]:
        over = {"walls_s": self.walls, "wall_over_floor": round(min(self.walls) / floor, 3)}
        return self.best | over


def by_turns(
    commands: Sequence[Command], file: Path, *, rounds: int, tell: Callable[[str], None]
) -> list[Side]:
    """Run each command once a round.  Raises BenchFailed."""
    runs: list[list[tuple[dict[str, Any], Tokens]]] = [[] for _ in commands]
    for number in range(1, rounds + 1):
        for engine, command in enumerate(commands):
            tell(f"round {number} of {rounds}, engine {engine + 1} of {len(commands)}")
            runs[engine].append(_run(command, file))
    return [_side(done) for done in runs]


def preferences(command: Command, texts: Sequence[Sequence[int]], folder: Path) -> Tokens:
    """What a peer would say next after each token of the texts.  Raises BenchFailed."""
    file, answers = folder / "texts.jsonl", folder / "preferred.jsonl"
    rows = [json.dumps({"prompt_ids": list(text), "max_tokens": 1}) + "\n" for text in texts]
    file.write_text("".join(rows), encoding="utf-8")
    _call([*command, "--workload", str(file), "--answers", str(answers), "--forced"])
    return _read_tokens(answers)


def _side(runs: Sequence[tuple[dict[str, Any], Tokens]]) -> Side:
    best, answers = min(runs, key=lambda run: run[0]["wall_s"])
    return Side(best, answers, [figures["wall_s"] for figures, _ in runs])


def _run(command: Command, file: Path) -> tuple[dict[str, Any], Tokens]:
    with TemporaryDirectory(prefix="gristmill-bench-") as folder:
        answers = Path(folder) / "answers.jsonl"
        said = _call([*command, "--workload", str(file), "--answers", str(answers)])
        try:
            return json.loads(said.splitlines()[-1]), _read_tokens(answers)
        except (IndexError, ValueError, OSError) as error:
            raise BenchFailed(f"{command[0]} gave no figures or no tokens: {error}") from error


def _call(command: Command) -> str:
    """What it printed.  Raises BenchFailed with the last that it said, if it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BenchFailed(f"{command[0]} cannot be run: {error}") from error
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise BenchFailed(f"{command[0]} ended with {done.returncode}: {last}")
    return done.stdout


def _read_tokens(file: Path) -> Tokens:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
