"""The engine alone on one workload: `gristmill bench engine`.

Figures are given only for right answers: every request has as many tokens as it must, and those of
a sample are what transformers computes from the same weights.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bench.ceiling import peak_gflops
from bench.engine_run import Run, Task, open_task, run_once
from bench.errors import BenchFailed, OutputsDiffer
from bench.floor import Shape, Work, operations
from bench.forced import ForcedAgreement, forced_agreement
from bench.reference import Agreement, Answer, compare, dense_model
from bench.stopwatch import peak_rss_gib
from engine.opening import open_model
from engine.requests import SamplingParams
from engine.weights.checkpoint import Checkpoint

EXACT = ("fp32", "auto")
# Of a narrower precision's preferred tokens.
ENOUGH_AGREEMENT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """precision: as the engine names them
    check: how many requests are compared with the reference; None: all
    ceiling: whether the machine is measured too, and so how far from its best the engine is
    """

    precision: str = "auto"
    check: int | None = 6
    ceiling: bool = True


def bench_engine(
    model: str, workload: str, options: Options, *, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Measure, check, and return the figures.  Raises BenchFailed or EngineError.

    workload: a file, or one of W1, W2, W3
    tell: is told what is being done
    """
    task = open_task(model, workload)
    tell("measuring the machine")
    peaks = [peak_gflops()] if options.ceiling else []
    tell("running")
    run = run_once(model, task, precision=options.precision)
    memory = peak_rss_gib()  # before the reference is loaded, which is not ours
    peaks += [peak_gflops()] if options.ceiling else []
    tell("comparing with the reference")
    checkpoint, _ = open_model(model)
    reference = dense_model(checkpoint)
    agreement = check_answers(reference, task, run, options)
    forced = check_precision(checkpoint, reference, task, options)
    return {
        "engine": "gristmill",
        "model": Path(model).name,
        "workload": Path(workload).stem,
        "precision": options.precision,
        **run.figures(task, peak_rss_gib=memory),
        "reference": asdict(agreement),
        **({"teacher_forced": asdict(forced)} if forced else {}),
        **against_floor(checkpoint, task, run, peaks),
    }


def check_answers(model: Any, task: Task, run: Run, options: Options) -> Agreement:
    """Compare greedy answers with those of `model`, the reference, spread over the workload.

    Raises OutputsDiffer where fp32 gives another token.  Narrower numbers round: how far they agree
    is told, and for its reader to judge.
    """
    greedy = [
        Answer(request.request_id, prompt, completion.token_ids)
        for request, prompt, completion in zip(
            task.requests, task.prompts, run.completions, strict=True
        )
        if _is_plainly_greedy(request.params)
    ]
    if not greedy:
        raise BenchFailed("no request of the workload is greedy, so none can be checked")
    stride = max(1, len(greedy) // (options.check or len(greedy)))
    sample = islice(greedy[::stride], options.check)
    return compare(model, sample, refuse=options.precision in EXACT)


def check_precision(
    checkpoint: Checkpoint, reference: Any, task: Task, options: Options
) -> ForcedAgreement | None:
    """Of narrower precisions than fp32: how far they agree with it on the workload's own text.

    Raises OutputsDiffer for a share below ENOUGH_AGREEMENT: that is no rounding any more.
    """
    if options.precision in EXACT:
        return None
    prompts = task.prompts
    stride = max(1, len(prompts) // (options.check or len(prompts)))
    texts = prompts[::stride][: options.check]
    forced = forced_agreement(checkpoint, reference, texts, precision=options.precision)
    if forced.equal_tokens < ENOUGH_AGREEMENT * forced.tokens:
        raise OutputsDiffer(
            f"{options.precision} prefers the reference's token at {forced.equal_tokens} of "
            f"{forced.tokens} places only"
        )
    return forced


def _is_plainly_greedy(params: SamplingParams) -> bool:
    """Whether nothing but the model's best token decides, until the end."""
    plain = SamplingParams(
        max_tokens=params.max_tokens,
        seed=params.seed,
        stop=params.stop,
        stop_token_ids=params.stop_token_ids,
        ignore_eos=params.ignore_eos,
    )
    return params == plain


def against_floor(
    checkpoint: Checkpoint, task: Task, run: Run, peaks: list[float]
) -> dict[str, float]:
    """peaks: GFLOP/s that the machine was seen to reach; nothing is told if there are none"""
    if not peaks:
        return {}
    outputs = [len(completion.token_ids) for completion in run.completions]
    works = map(Work, task.prompts, outputs)
    floor = operations(Shape.of(checkpoint.config), works).seconds(gflops=max(peaks))
    return {
        "peak_gflops": round(max(peaks), 1),
        "floor_s": round(floor, 2),
        "wall_over_floor": round(run.wall_s / floor, 3),
    }
