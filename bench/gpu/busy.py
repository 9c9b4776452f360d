"""How much of a decode step the GPU computes, and so how much of it waits for the host."""

import time

import torch
from torch.profiler import ProfilerActivity, profile

from bench.engine_run import Task
from engine.llm import LLM

_STEPS = 20


def busy_share(llm: LLM, task: Task) -> float:
    """Of steps with all of the task's requests under way, the share in which kernels run.

    Begins with an idle engine and leaves one.  A profiler slows the host down, so the true share is
    no smaller.
    """
    engine = llm.engine
    engine.add(task.requests)
    while engine.has_work and engine.stats().output_tokens < len(task.requests):
        engine.step()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        started = time.perf_counter()
        for _ in range(_STEPS):
            engine.step()
        torch.cuda.synchronize()
        wall = time.perf_counter() - started
    engine.abort([request.request_id for request in task.requests])
    microseconds: float = sum(event.self_device_time_total for event in profiler.key_averages())
    return 1e-6 * microseconds / wall
