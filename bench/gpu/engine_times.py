"""The engine on the workload that it is made for: many requests behind one long system prompt."""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from bench.engine_run import Run, Task, make_task, run_once
from bench.floor import Shape
from bench.gpu.busy import busy_share
from bench.gpu.random_model import LLAMA_8B, TINY, write_random_model
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
    shape: Shape
    load: Load
    requests: int
    precision: str


LARGE = Trial(
    shape=LLAMA_8B,
    load=Load(shared=2000, own=200, output=200),
    requests=1024,
    precision="bf16",
)
SMALL = Trial(shape=TINY, load=Load(shared=48, own=8, output=4), requests=6, precision="fp32")


def engine_times(
    trial: Trial, device: torch.device, *, gemm_tflop_s: float, copy_gb_s: float
) -> dict[str, Any]:
    """gemm_tflop_s, copy_gb_s: the card's ceilings.  Raises OutputsDiffer or ModelUnusable."""
    dtype = torch.bfloat16 if trial.precision == "bf16" else torch.float32
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-") as name:
        write_random_model(trial.shape, Path(name), dtype=dtype, device=device, spread=_USUAL)
        _, tokenizer = open_model(name)
        task = make_task(_requests(trial), tokenizer)
        busy = _warm_up(name, task, trial, device)
        run = run_once(name, task, precision=trial.precision, device=str(device))
    card = Card(
        gemm_flops=1e12 * gemm_tflop_s,
        attention_flops=1e12 * gemm_tflop_s * _ATTENTION_SHARE,
        bytes_s=1e9 * copy_gb_s,
    )
    floor = trial.requests * request_seconds(trial.shape, trial.load, card, itemsize=dtype.itemsize)
    return {**_figures(trial, task, run, floor), "gpu_busy_share": busy}


def _warm_up(name: str, task: Task, trial: Trial, device: torch.device) -> float | None:
    """Compile every kernel for the sizes to come, outside of what is timed, and see how busy the
    card is meanwhile; on a CPU nothing is to be done."""
    if device.type != "cuda":
        return None
    precision = cast(Precision, trial.precision)
    llm = LLM(name, device=str(device), precision=precision, on_report=lambda line: None)
    return round(busy_share(llm, task), 4)


def _requests(trial: Trial) -> list[Request]:
    rng = random.Random(0)
    vocabulary, load = trial.shape.vocabulary, trial.load
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
