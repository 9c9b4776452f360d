"""Two corrections to Triton's interpreter, so that bf16 kernels can be held to a GPU's precision.

The interpreter keeps bf16 as its bits in uint16.  It multiplies matrices of them as integers, and
it narrows fp32 to bf16 by cutting bits off where a GPU rounds to nearest.
"""

import numpy as np
import torch
from triton.language import bfloat16, float32
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle


def correct(monkeypatch):
    monkeypatch.setattr(InterpreterBuilder, "create_dot", _multiply)
    monkeypatch.setattr(InterpreterBuilder, "cast_impl", _cast)


_create_dot = InterpreterBuilder.create_dot
_cast_impl = InterpreterBuilder.cast_impl


def _multiply(builder, a, b, *args):
    return _create_dot(builder, _widened(a), _widened(b), *args)


def _widened(handle):
    if handle.dtype.scalar != bfloat16:
        return handle
    bits = handle.data.astype(np.uint32) << 16  # bf16 is the upper half of an fp32
    return TensorHandle(bits.view(np.float32), float32)


def _cast(builder, handle, dtype):
    if (handle.dtype.scalar, dtype.scalar) != (float32, bfloat16):
        return _cast_impl(builder, handle, dtype)
    rounded = torch.from_numpy(np.array(handle.data)).bfloat16()
    return TensorHandle(rounded.view(torch.uint16).numpy(), bfloat16)
