"""Where a request's tokens are the same to the last bit whatever shares its steps.

The compiled CPU kernels sum every row in one order, however many rows there are, however a prompt
is cut into chunks and whether or not its prefix is shared; in int8 each row has a scale of its own.
So there is nothing to switch on, and nothing to pay: to ask for it is to be refused where it would
not hold.
"""

import torch

from engine.errors import ModelUnusable
from engine.models.shape import ModelShape
from kernels import native


def why_not_deterministic(
    shape: ModelShape, device: torch.device, dtype: torch.dtype
) -> str | None:
    """One sentence, or None where it holds."""
    if device.type != "cpu" or dtype not in (torch.float32, torch.int8):
        name = str(dtype).removeprefix("torch.")
        return f"deterministic holds on a CPU in fp32 and int8 alone, not on {device} in {name}"
    if native.library() is None:
        return "deterministic needs the compiled CPU kernels, which want gcc and AVX2"
    fits = native.can_attend(shape.num_heads, shape.num_kv_heads, shape.head_dim)
    if not (fits and native.can_compute_rows(shape.intermediate_size)):
        return (
            f"deterministic holds for sizes that the compiled CPU kernels have, not for a head_dim "
            f"of {shape.head_dim}, {shape.num_heads} heads on {shape.num_kv_heads} and an "
            f"intermediate_size of {shape.intermediate_size}"
        )
    return None


def refuse_unless_deterministic(
    shape: ModelShape, device: torch.device, dtype: torch.dtype
) -> None:
    """Raises ModelUnusable where it would not hold."""
    reason = why_not_deterministic(shape, device, dtype)
    if reason is not None:
        raise ModelUnusable(reason)


def determinism_report(shape: ModelShape, device: torch.device, dtype: torch.dtype) -> str:
    if why_not_deterministic(shape, device, dtype) is None:
        return "deterministic: a request's tokens depend on nothing but the request"
    return "deterministic: no; where two tokens are nearly equal, a request's company may decide"
