"""Other tiles than those of `kernels/gpu/tiles.py`, on the steps that each is for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from triton.runtime.errors import OutOfResources

from bench.gpu.attention_step import StepShape, random_step
from bench.gpu.kernel_checks import require_alike
from bench.gpu.timing import seconds_per_call
from kernels.gpu.attention_call import AttentionCall
from kernels.gpu.paged_attention import attend, geometry_of, plan_parts


@dataclass(frozen=True, slots=True)
class TileTrial:
    """A step, and sizes of tiles to try on it, by their names in `Tiles`."""

    name: str
    shape: StepShape
    variants: Sequence[Mapping[str, Any]]


LARGE = (
    TileTrial(
        "1,024 decodes behind 2,048 shared tokens",
        StepShape(decodes=(2112,) * 1024, shared=2048),
        (
            {},
            {"stages": 4},
            {"keys": 128},
            {"keys": 32},
            {"part_rows": 64},
            {"part_rows": 64, "stages": 4},
        ),
    ),
    TileTrial(
        "256 decodes of 2,000 tokens",
        StepShape(decodes=(2000,) * 256),
        ({}, {"keys": 32}, {"keys": 128}),
    ),
    TileTrial(
        "a prefill of 4,096 tokens",
        StepShape(chunks=((4096, 4096),)),
        (
            {},
            {"prefill_keys": 64},
            {"prefill_rows": 128, "prefill_keys": 64},
            {"prefill_rows": 128, "prefill_keys": 32},
        ),
    ),
)


def tile_times(
    trials: Sequence[TileTrial], dtype: torch.dtype, device: torch.device
) -> Iterator[dict[str, Any]]:
    """One line for each variant.  Raises OutputsDiffer if it does not give what the first gives."""
    for trial in trials:
        step = random_step(trial.shape, dtype, device)
        call = AttentionCall.of(
            step.q, step.k_cache, step.v_cache, step.metadata, scale=trial.shape.scale, window=None
        )
        want = attend(_with(call, trial.variants[0])).clone()
        for variant in trial.variants:
            changed = _with(call, variant)
            yield {"step": trial.name, "tiles": dict(variant), **_measure(changed, want)}


def _with(call: AttentionCall, variant: Mapping[str, Any]) -> AttentionCall:
    changed = replace(call, tiles=replace(call.tiles, **variant))
    return replace(changed, parts=plan_parts(changed, geometry_of(changed)))


def _measure(call: AttentionCall, want: torch.Tensor) -> dict[str, Any]:
    try:
        got = attend(call)
    except OutOfResources as refusal:
        return {"refused": str(refusal)}
    require_alike(f"attention with {call.tiles}", got, want)
    seconds = seconds_per_call(lambda: attend(call), call.q.device)
    return {"us": round(1e6 * seconds, 1)}
