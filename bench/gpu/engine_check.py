"""The engine's greedy tokens on this device against those of transformers on the same weights."""

import random
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from bench.engine_run import make_task, run_once
from bench.gpu.random_model import TINY, write_random_model
from bench.reference import Answer, compare, dense_model
from engine.opening import open_model
from engine.requests import Request, SamplingParams

_WIDE = 0.3


@dataclass(frozen=True, slots=True)
class Crowd:
    """Half of the requests share so many tokens; lengths differ.  No whole number of blocks."""

    requests: int
    shared: int


SMALL = Crowd(requests=24, shared=100)
# On a GPU what these share is worth being computed in parts.
LARGE = Crowd(requests=256, shared=2100)


def check_engine(crowd: Crowd, device: torch.device) -> dict[str, Any]:
    """In fp32, where every token must be the reference's.  Raises OutputsDiffer."""
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-") as name:
        folder = Path(name)
        write_random_model(TINY, folder, dtype=torch.float32, device=device, spread=_WIDE)
        checkpoint, tokenizer = open_model(name)
        task = make_task(_requests(crowd), tokenizer)
        run = run_once(name, task, precision="fp32", device=str(device))
        answers = [
            Answer(completion.request_id, prompt, completion.token_ids)
            for prompt, completion in zip(task.prompts, run.completions, strict=True)
        ]
        return asdict(compare(dense_model(checkpoint).to(device), answers, refuse=True))


def _requests(crowd: Crowd) -> list[Request]:
    rng = random.Random(0)

    def tokens(count: int) -> list[int]:
        return [rng.randrange(TINY.vocabulary) for _ in range(count)]

    shared = tokens(crowd.shared)
    return [
        Request(
            request_id=str(number),
            prompt=(shared if number % 2 else []) + tokens(rng.randint(1, 60)),
            params=SamplingParams(max_tokens=rng.randint(1, 40), ignore_eos=True),
        )
        for number in range(crowd.requests)
    ]
