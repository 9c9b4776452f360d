"""How fast each kernel is, beside what the card does at best."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

import kernels
from bench.gpu.attention_step import StepShape, random_step
from bench.gpu.timing import seconds_per_call

_EPS = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """tokens, hidden, intermediate: of the row-wise kernels; square: of the product
    steps: by name, of attention
    """

    copied_bytes: int
    square: int
    tokens: int
    hidden: int
    intermediate: int
    steps: dict[str, StepShape]


# Llama-3.1-8B's shapes.  1,024 sequences are the steady state of 2,000 shared, 200 own and 200 new
# tokens; the other steps share nothing.
LARGE = Sizes(
    copied_bytes=2**30,
    square=8192,
    tokens=4096,
    hidden=4096,
    intermediate=14336,
    steps={
        "decode, 1,024 sequences behind 2,000 shared tokens": StepShape(
            decodes=(2300,) * 1024, shared=2000
        ),
        "decode, 256 sequences of 2,000 tokens": StepShape(decodes=(2000,) * 256),
        "decode, 1 sequence of 32,768 tokens": StepShape(decodes=(32768,)),
        "prefill, 4,096 tokens": StepShape(chunks=((4096, 4096),)),
        "prefill, 20 x 200 tokens behind 2,000 shared": StepShape(
            chunks=((200, 2200),) * 20, shared=2000
        ),
    },
)
SMALL = Sizes(
    copied_bytes=2**16,
    square=64,
    tokens=8,
    hidden=64,
    intermediate=128,
    steps={
        "decode": StepShape(decodes=(40, 30), shared=16, heads=4, kv_heads=2, head_dim=16),
        "prefill": StepShape(chunks=((20, 20),), heads=4, kv_heads=2, head_dim=16),
    },
)


def ceilings(sizes: Sizes, dtype: torch.dtype, device: torch.device) -> dict[str, float]:
    """What the card does at best: bytes read and written, and one large product."""
    source = torch.zeros(sizes.copied_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = seconds_per_call(lambda: target.copy_(source), device)
    x = torch.randn(sizes.square, sizes.square, dtype=dtype, device=device)
    product = seconds_per_call(lambda: F.linear(x, x), device)
    # By digits, not places: a dry run on a busy machine is slow, and others divide by these.
    return {
        "copy_gb_s": float(f"{2e-9 * sizes.copied_bytes / copy:.4g}"),
        "gemm_tflop_s": float(f"{2e-12 * sizes.square**3 / product:.4g}"),
    }


def kernel_times(
    sizes: Sizes,
    dtype: torch.dtype,
    device: torch.device,
    *,
    copy_gb_s: float,
    gemm_tflop_s: float,
) -> Iterator[dict[str, Any]]:
    """One line for each kernel and size, beside these ceilings."""
    yield from _row_wise_times(sizes, dtype, device)
    for name, shape in sizes.steps.items():
        figures = _attention_time(shape, dtype, device)
        yield {
            "kernel": "paged_attention",
            "step": name,
            **figures,
            "share_of_copy": round(figures["gb_s"] / copy_gb_s, 3),
            "share_of_gemm": round(figures["tflop_s"] / gemm_tflop_s, 3),
        }


def _row_wise_times(
    sizes: Sizes, dtype: torch.dtype, device: torch.device
) -> Iterator[dict[str, Any]]:
    x = torch.randn(sizes.tokens, sizes.hidden, dtype=dtype, device=device)
    weight = torch.ones(sizes.hidden, dtype=dtype, device=device)
    gate_up = torch.randn(sizes.tokens, 2 * sizes.intermediate, dtype=dtype, device=device)
    runs = {
        "rms_norm": (lambda: kernels.rms_norm(x, weight, _EPS), 2 * x.nbytes),
        "add_rms_norm": (lambda: kernels.add_rms_norm(x, x, weight, _EPS), 4 * x.nbytes),
        "silu_mul": (lambda: kernels.silu_mul(gate_up), gate_up.nbytes * 3 // 2),
    }
    for name, (run, num_bytes) in runs.items():
        seconds = seconds_per_call(run, device)
        yield {
            "kernel": name,
            "us": round(1e6 * seconds, 1),
            "gb_s": round(1e-9 * num_bytes / seconds, 1),
        }


def _attention_time(shape: StepShape, dtype: torch.dtype, device: torch.device) -> dict[str, float]:
    """gb_s counts what is shared once: a kernel that reads it again for everyone looks slow."""
    step = random_step(shape, dtype, device)

    def run() -> torch.Tensor:
        return kernels.paged_attention(
            step.q, step.k_cache, step.v_cache, step.metadata, scale=shape.scale
        )

    seconds = seconds_per_call(run, device)
    kv_bytes = 2 * shape.distinct_tokens() * shape.kv_heads * shape.head_dim * dtype.itemsize
    return {
        "us": round(1e6 * seconds, 1),
        "gb_s": round(1e-9 * (kv_bytes + 2 * step.q.nbytes) / seconds, 1),
        "tflop_s": round(1e-12 * shape.flops() / seconds, 3),
    }
