"""When it pays to compute attention in parts: decodes with and without them, over many sizes.

The last line says from how many saved bytes on sharing should be used (`kernels/gpu/sharing.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import torch

from bench.gpu.attention_step import StepShape, random_step
from bench.gpu.kernel_checks import require_alike
from bench.gpu.timing import seconds_per_call
from kernels.gpu.attention_call import AttentionCall
from kernels.gpu.attention_parts import Parts
from kernels.gpu.paged_attention import attend, geometry_of, plan_parts
from kernels.gpu.part_attention import launch_parts
from kernels.gpu.sharing import WORTH_A_LAUNCH


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSizes:
    """groups of decodes that share so many tokens and have `own` more each; and decodes that share
    nothing: how many, of which length, cut into pieces of how many tokens"""

    groups: Sequence[int]
    shared: Sequence[int]
    own: int
    contexts: Sequence[tuple[int, int]]
    pieces: Sequence[int]
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128


LARGE = PartSizes(
    groups=(8, 32, 128, 512, 1024),
    shared=(256, 1024, 2048, 8192),
    own=256,
    contexts=((1, 2048), (1, 32768), (8, 8192), (32, 4096)),
    pieces=(256, 512, 1024),
)


class Trial(NamedTuple):
    """saved: bytes, as the rule counts them; seconds without parts and with them"""

    saved: int
    whole_s: float
    parts_s: float


def parts_times(
    sizes: PartSizes, dtype: torch.dtype, device: torch.device
) -> Iterator[dict[str, Any]]:
    """One line for each size.  Raises OutputsDiffer if parts give something else than the whole."""
    trials = []
    for group, shared in product(sizes.groups, sizes.shared):
        shape = _shape(sizes, (shared + sizes.own,) * group, shared)
        call = _call(shape, dtype, device)
        geometry = replace(geometry_of(call), worth_a_launch=0)
        parts = plan_parts(call, geometry)
        if parts is None:  # by the bytes it does not pay whatever a launch costs
            continue
        saved = geometry.saved_bytes(torch.ones(group, dtype=torch.int64).numpy(), shared)
        trial = Trial(saved, *_seconds(call, parts, device))
        trials.append(trial)
        yield {"group": group, "shared": shared, **_figures(trial), **_alone(call, parts, shape)}
    yield from _cut_times(sizes, dtype, device)
    yield {"worth_a_launch": least_worth(trials), "used": WORTH_A_LAUNCH}


def least_worth(trials: Sequence[Trial]) -> int | None:
    """From how many saved bytes on parts should be used, for the least time over all of these."""

    def seconds(least: float) -> float:
        return sum(trial.parts_s if trial.saved >= least else trial.whole_s for trial in trials)

    best = min([*(trial.saved for trial in trials), float("inf")], key=seconds)
    return None if best == float("inf") else int(best)


def _cut_times(
    sizes: PartSizes, dtype: torch.dtype, device: torch.device
) -> Iterator[dict[str, Any]]:
    for (seqs, length), piece in product(sizes.contexts, sizes.pieces):
        call = _call(_shape(sizes, (length,) * seqs, 0), dtype, device)
        parts = plan_parts(call, replace(geometry_of(call), min_piece=piece))
        if parts is not None:
            trial = Trial(0, *_seconds(call, parts, device))
            yield {"decodes": seqs, "of": length, "piece": piece, **_figures(trial)}


def _shape(sizes: PartSizes, decodes: tuple[int, ...], shared: int) -> StepShape:
    return StepShape(
        decodes=decodes,
        shared=shared,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
    )


def _call(shape: StepShape, dtype: torch.dtype, device: torch.device) -> AttentionCall:
    step = random_step(shape, dtype, device)
    return AttentionCall.of(
        step.q, step.k_cache, step.v_cache, step.metadata, scale=shape.scale, window=None
    )


def _seconds(call: AttentionCall, parts: Parts, device: torch.device) -> tuple[float, float]:
    in_parts = replace(call, parts=parts)
    require_alike("attention in parts", attend(call).clone(), attend(in_parts))
    return (
        seconds_per_call(lambda: attend(call), device),
        seconds_per_call(lambda: attend(in_parts), device),
    )


def _alone(call: AttentionCall, parts: Parts, shape: StepShape) -> dict[str, float]:
    """Of the parts' kernel by itself."""
    seconds = seconds_per_call(lambda: launch_parts(call, parts), call.q.device)
    flops = 4 * len(shape.decodes) * shape.shared * shape.heads * shape.head_dim
    return {"parts_alone_tflop_s": float(f"{1e-12 * flops / seconds:.4g}")}


def _figures(trial: Trial) -> dict[str, float]:
    return {
        "saved_mb": round(1e-6 * trial.saved, 2),
        "whole_us": round(1e6 * trial.whole_s, 1),
        "parts_us": round(1e6 * trial.parts_s, 1),
        "faster": round(trial.whole_s / trial.parts_s, 2),
    }
