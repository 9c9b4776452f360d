"""The engine on the workload that it is made for, many requests behind one long system prompt, and
on one without anything in common."""

import gc
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.engine_run import Run, Task, make_task, run_once
from bench.floor import Shape
from bench.gpu.busy import busy_share
from bench.gpu.random_model import LLAMA_8B, QWEN_7B, TINY, write_random_model
from bench.gpu.roofline import Card, Load, request_seconds
from engine.config import Precision
from engine.llm import LLM
from engine.opening import open_model
from engine.requests import Request, SamplingParams

_USUAL = 0.02  # the spread of weights before training
# Attention reaches about half of what large products do.
_ATTENTION_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    load: Load
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """trials: on the same random weights"""

    name: str
    shape: Shape
    precision: Precision
    trials: Sequence[Trial]

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision == "bf16" else torch.float32


_BEHIND_A_PROMPT = Trial(load=Load(shared=2000, own=200, output=200), requests=1024)
_NOTHING_SHARED = Trial(load=Load(shared=0, own=1000, output=1000), requests=512)

LARGE = (
    Model(
        name="Llama-3.1-8B",
        shape=LLAMA_8B,
        precision="bf16",
        trials=(_BEHIND_A_PROMPT, _NOTHING_SHARED),
    ),
    Model(name="Qwen2.5-7B", shape=QWEN_7B, precision="bf16", trials=(_BEHIND_A_PROMPT,)),
)
SMALL = (
    Model(
        name="tiny",
        shape=TINY,
        precision="fp32",
        trials=(Trial(load=Load(shared=48, own=8, output=4), requests=6),),
    ),
)


def engine_times(
    model: Model, device: torch.device, *, gemm_tflop_s: float, copy_gb_s: float
) -> Iterator[dict[str, Any]]:
    """One line for each trial.  Raises OutputsDiffer or ModelUnusable.

    gemm_tflop_s, copy_gb_s: the card's ceilings
    """
    card = Card(
        gemm_flops=1e12 * gemm_tflop_s,
        attention_flops=1e12 * gemm_tflop_s * _ATTENTION_SHARE,
        bytes_s=1e9 * copy_gb_s,
    )
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-") as name:
        folder = Path(name)
        write_random_model(model.shape, folder, dtype=model.dtype, device=device, spread=_USUAL)
        _, tokenizer = open_model(name)
        for trial in model.trials:
            task = make_task(_requests(trial, model.shape.vocabulary), tokenizer)
            _free(device)
            busy = _warm_up(name, task, model, device)
            _free(device)
            run = run_once(name, task, precision=model.precision, device=str(device))
            each = request_seconds(model.shape, trial.load, card, itemsize=model.dtype.itemsize)
            figures = _figures(trial, task, run, trial.requests * each)
            yield {"model": model.name, **figures, "gpu_busy_share": busy}


def _warm_up(name: str, task: Task, model: Model, device: torch.device) -> float | None:
    """Compile every kernel for the sizes to come, outside of what is timed, and see how busy the
    card is meanwhile; on a CPU nothing is to be done."""
    if device.type != "cuda":
        return None
    llm = LLM(name, device=str(device), precision=model.precision, on_report=lambda line: None)
    return round(busy_share(llm, task), 4)


def _free(device: torch.device) -> None:
    """What was there before, for an engine asks the card how much there is."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _requests(trial: Trial, vocabulary: int) -> list[Request]:
    rng, load = random.Random(0), trial.load
    shared = rng.choices(range(vocabulary), k=load.shared)
    return [
        Request(
            request_id=str(number),
            prompt=shared + rng.choices(range(vocabulary), k=load.own),
            params=SamplingParams(max_tokens=load.output, ignore_eos=True),
        )
        for number in range(trial.requests)
    ]


def _figures(trial: Trial, task: Task, run: Run, floor: float) -> dict[str, Any]:
    load = trial.load
    return {
        "requests": trial.requests,
        "shared_own_output": [load.shared, load.own, load.output],
        "wall_s": round(run.wall_s, 2),
        "out_tok_s": round(run.output_tokens / run.wall_s, 1),
        "total_tok_s": round((task.prompt_tokens + run.output_tokens) / run.wall_s, 1),
        "prefill_tokens_computed": run.prefill_tokens_computed,
        "prefill_tokens_distinct": load.shared + trial.requests * load.own,
        "prefill_tokens_logical": run.prefill_tokens_logical,
        "roofline_out_tok_s": round(trial.requests * load.output / floor, 1),
        "share_of_roofline": round(floor / run.wall_s, 4),
    }
