"""One timed pass of an engine over a workload."""

import gc
from dataclasses import dataclass
from typing import Any, cast

from bench.errors import BenchFailed, OutputsDiffer
from bench.figures import Pass
from bench.stopwatch import Stopwatch
from bench.workloads import open_workload
from engine.config import Precision
from engine.llm import LLM
from engine.opening import open_model
from engine.requests import Completion, Prompt, Request, SamplingParams
from engine.tokenizer import Tokenizer

_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be computed.  prompts: the requests' own, as tokens."""

    requests: list[Request]
    prompts: list[list[int]]

    @property
    def prompt_tokens(self) -> int:
        return sum(map(len, self.prompts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """completions: in the order of the requests; prefill_*: as the engine counted them."""

    wall_s: float
    cpu_s: float
    others_cpu_s: float
    completions: list[Completion]
    prefill_tokens_computed: int
    prefill_tokens_logical: int

    @property
    def output_tokens(self) -> int:
        return sum(len(completion.token_ids) for completion in self.completions)

    def figures(self, task: Task, *, peak_rss_gib: float) -> dict[str, Any]:
        made = Pass(
            requests=len(task.requests),
            prompt_tokens=task.prompt_tokens,
            output_tokens=self.output_tokens,
            wall_s=self.wall_s,
            cpu_s=self.cpu_s,
            others_cpu_s=self.others_cpu_s,
            peak_rss_gib=peak_rss_gib,
        )
        return {
            **made.figures(),
            "prefill_tokens_computed": self.prefill_tokens_computed,
            "prefill_tokens_logical": self.prefill_tokens_logical,
        }


def open_task(model: str, workload: str) -> Task:
    """What a workload, a file or one of W1, W2, W3, asks of a model.

    Nothing of the model is kept, for it would count as memory of the engine's.
    """
    _, tokenizer = open_model(model)
    return make_task(open_workload(workload, tokenizer), tokenizer)


def make_task(requests: list[Request], tokenizer: Tokenizer) -> Task:
    """Raises BenchFailed if there is no request."""
    if not requests:
        raise BenchFailed("the workload has no request")
    return Task(requests, [_tokens(request.prompt, tokenizer) for request in requests])


def _tokens(prompt: Prompt, tokenizer: Tokenizer) -> list[int]:
    """As the engine reads it."""
    if isinstance(prompt, str):
        return tokenizer.encode([prompt], add_special_tokens=True)[0]
    tokens = [token for token in prompt if isinstance(token, int)]
    if tokens:
        return tokens
    messages = [message for message in prompt if not isinstance(message, int)]
    return tokenizer.encode([tokenizer.render_chat(messages)], add_special_tokens=False)[0]


def run_once(model: str, task: Task, *, precision: str, device: str = "auto") -> Run:
    """Load a fresh engine, so that nothing is computed already, and time it on the task.

    Raises OutputsDiffer if a request has not the tokens that it must have, and ModelUnusable.
    """
    gc.collect()  # the engine of the run before, if it is still there
    llm = LLM(
        model,
        device=device,
        precision=cast(Precision, precision),  # the engine refuses one that it does not know
        on_report=lambda line: None,
    )
    llm.generate([_warm_up(task)])
    before = llm.engine.stats()
    with Stopwatch() as stopwatch:
        completions = llm.generate(task.requests)
    after = llm.engine.stats()
    for request, completion in zip(task.requests, completions, strict=True):
        _require_complete(request, completion)
    return Run(
        wall_s=stopwatch.wall_s,
        cpu_s=stopwatch.cpu_s,
        others_cpu_s=stopwatch.others_cpu_s,
        completions=completions,
        prefill_tokens_computed=after.prefill_tokens_computed - before.prefill_tokens_computed,
        prefill_tokens_logical=after.prefill_tokens_logical - before.prefill_tokens_logical,
    )


def _warm_up(task: Task) -> Request:
    """A few tokens that no prompt begins with."""
    return Request(
        request_id="warm-up",
        prompt=task.prompts[0][:-9:-1],
        params=SamplingParams(max_tokens=_WARM_UP_TOKENS, ignore_eos=True),
    )


def _require_complete(request: Request, completion: Completion) -> None:
    if completion.error is not None:
        raise OutputsDiffer(f"request {request.request_id} failed: {completion.error.message}")
    wanted, got = request.params.max_tokens, len(completion.token_ids)
    if request.params.ignore_eos and got != wanted:
        raise OutputsDiffer(f"request {request.request_id} has {got} tokens instead of {wanted}")
