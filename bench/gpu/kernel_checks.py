"""Every kernel against its plain formula, before any of them is timed.

A kernel may err twice as much as the plain formula does in the same type; fp64 says how much each
errs.  The sizes are such that few of them fill their tiles.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch

import kernels
from bench.errors import OutputsDiffer
from bench.gpu.attention_step import StepShape, random_step
from kernels import reference

DTYPES = (torch.bfloat16, torch.float16, torch.float32)

# Between two orders of the same sums: a unit in the last place of bf16.
_ALIKE = 2**-7

# Beside twice the plain formula's error, which may happen to be none.
_ALLOWED = 1e-5
_EPS = 1e-5

_ROWS = ((1, 64), (7, 576), (33, 4096))
_HEADS = ((1, 9, 3, 64), (33, 32, 8, 128))  # tokens, heads, KV heads, head size
_STEPS = (
    StepShape(
        decodes=(1, 16, 17, 200), chunks=((1, 1), (40, 131)), heads=9, kv_heads=3, head_dim=64
    ),
    StepShape(decodes=(33, 700), chunks=((64, 64), (129, 400))),
    StepShape(decodes=(300, 517, 260), chunks=((70, 330),), shared=256),
)
# On a GPU what is shared here is computed in parts, and so is the long context.
_LARGE_STEPS = (StepShape(decodes=(*[1040] * 24, 5000), chunks=((70, 1200),), shared=1024),)
_WINDOWS = (None, 50)


def check_kernels(device: torch.device) -> int:
    """Returns how many comparisons were made.  Raises OutputsDiffer at the first that fails."""
    torch.manual_seed(0)
    checks = [check for dtype in DTYPES for check in _checks(partial(_random, dtype, device))]
    for check in checks:
        check()
    return len(checks)


def compare(
    op: Callable[..., Any], plain: Callable[..., Any], *arguments: torch.Tensor | float
) -> None:
    """Hold an op against the plain formula on the same arguments.  Raises OutputsDiffer."""
    results = op(*arguments), plain(*arguments), plain(*map(_wide, arguments))
    for each in zip(*map(_as_tuple, results), strict=True):
        require_close(op.__name__, *each)


def require_close(what: str, got: torch.Tensor, plain: torch.Tensor, gold: torch.Tensor) -> None:
    """gold: what fp64 gives.  Raises OutputsDiffer."""
    error = float((got.double() - gold).abs().max())
    allowed = 2 * float((plain.double() - gold).abs().max()) + _ALLOWED
    if not error <= allowed:  # nor if it is NaN
        raise OutputsDiffer(f"{what} in {got.dtype} errs by {error:.3g}; {allowed:.3g} is allowed")


def require_alike(what: str, got: torch.Tensor, other: torch.Tensor) -> None:
    """Two ways to compute the same.  Raises OutputsDiffer."""
    apart = (got - other).abs().double() - _ALIKE * other.abs().double()
    if not float(apart.max()) <= _ALIKE:  # nor if it is NaN
        raise OutputsDiffer(f"{what} gives something else, by {float(apart.max()):.3g}")


def _checks(random: Callable[..., torch.Tensor]) -> Iterator[Callable[[], None]]:
    for rows, columns in _ROWS:
        x, residual, weight = random(rows, columns), random(rows, columns), random(columns)
        yield partial(compare, kernels.rms_norm, reference.rms_norm, x, weight, _EPS)
        yield partial(
            compare, kernels.add_rms_norm, reference.add_rms_norm, x, residual, weight, _EPS
        )
        yield partial(compare, kernels.silu_mul, reference.silu_mul, x)
        yield partial(compare, kernels.gelu_mul, reference.gelu_mul, x)
    for tokens, heads, kv_heads, head_dim in _HEADS:
        q, k = random(tokens, heads, head_dim), random(tokens, kv_heads, head_dim)
        yield partial(_check_rotary, q, k)
        yield partial(_check_store, k)
    steps = (*_STEPS, *_LARGE_STEPS) if q.is_cuda else _STEPS
    for shape, window in product(steps, _WINDOWS):
        yield partial(_check_attention, shape, q.dtype, device=q.device, window=window)


def _check_rotary(q: torch.Tensor, k: torch.Tensor) -> None:
    angles = torch.rand(512, q.shape[2] // 2, device=q.device) * 6
    cos_sin = torch.cat((angles.cos(), angles.sin()), dim=1)
    positions = torch.randint(512, (len(q),), device=q.device)
    compare(kernels.rotary_embedding, reference.rotary_embedding, q, k, positions, cos_sin)


def _check_store(k: torch.Tensor) -> None:
    """Bit for bit: nothing is computed, and nothing may be written beside the slots."""
    v, caches = k.flip(0), []
    slots = torch.randperm(8 * 16)[: len(k)].to(k.device)
    slots[-1] = -1
    for store in (kernels.store_kv, reference.store_kv):
        k_cache, v_cache = (k.new_zeros(8, 16, *k.shape[1:]) for _ in range(2))
        store(k, v, k_cache, v_cache, slots)
        caches.append(torch.stack((k_cache, v_cache)))
    if not torch.equal(*caches):
        raise OutputsDiffer(f"store_kv in {k.dtype} writes something else than it is given")


def _check_attention(
    shape: StepShape, dtype: torch.dtype, *, device: torch.device, window: int | None
) -> None:
    step = random_step(shape, dtype, device)
    tensors = step.q, step.k_cache, step.v_cache
    got = kernels.paged_attention(*tensors, step.metadata, scale=shape.scale, window=window)
    formula = partial(
        reference.paged_attention, metadata=step.metadata, scale=shape.scale, window=window
    )
    plain = formula(*tensors, compute_dtype=dtype)
    require_close("paged_attention", got, plain, formula(*(x.double() for x in tensors)))


def _random(dtype: torch.dtype, device: torch.device, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, device=device)


def _as_tuple(result: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _wide(argument: torch.Tensor | float) -> torch.Tensor | float:
    if isinstance(argument, torch.Tensor) and argument.is_floating_point():
        return argument.double()
    return argument
