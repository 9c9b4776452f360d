"""Weight matrices in the order in which the C products read them."""

import ctypes

import torch
from torch.nn import functional as F

from kernels.native.program import compute, empty
from kernels.native.structures import integers, pointers

COLUMNS = 16  # as in product.h
PAIR = 2  # as in linear_int8.c
INT8_STEP = 16  # inputs that are narrowed at once
# Rows in int16 have this many steps at most, and fewer where a sum of products could overflow.
MAX_LIMIT = 8191
MAX_SUM = 2**31 - 1


class Pack(ctypes.Structure):
    """`struct pack` of linear.c."""

    _fields_ = (*pointers("weight", "packed"), *integers("inputs", "outputs"))


class PackInt8(ctypes.Structure):
    """`struct pack_int8` of linear_int8.c."""

    _fields_ = (*pointers("weight", "packed", "scales"), *integers("inputs", "outputs"))


class Result(ctypes.Structure):
    """`struct result` of product.h."""

    _fields_ = (*pointers("bias", "out"), *integers("outputs"))


class Linear(ctypes.Structure):
    """`struct linear` of linear.c."""

    _fields_ = (*pointers("x", "packed"), ("result", Result), *integers("inputs"))


class LinearInt8(ctypes.Structure):
    """`struct linear_int8` of linear_int8.c."""

    _fields_ = (
        *pointers("x", "packed", "scales", "narrowed", "units"),
        ("result", Result),
        *integers("inputs", "limit"),
    )


class PackedWeight:
    """x @ weight.T + bias in fp32."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._outputs, self._inputs = weight.shape
        self._bias = _whole_panels(bias)
        self._packed = torch.empty(-(-self._outputs // COLUMNS), self._inputs, COLUMNS)
        weight = weight.contiguous()
        of = Pack(weight.data_ptr(), self._packed.data_ptr(), self._inputs, self._outputs)
        compute("gm_pack", of, rows=len(self._packed))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = empty((len(x), self._outputs))
        result = _result(self._bias, out)
        of = Linear(x.data_ptr(), self._packed.data_ptr(), result, self._inputs)
        compute("gm_linear", of, rows=len(x))
        return out

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The weight's own rows: an embedding need not be kept a second time."""
        return self._packed[index // COLUMNS, :, index % COLUMNS]


class PackedInt8Weight:
    """x @ weight.T + bias with the weight in int8, a scale for each of its rows.

    Each row of x is narrowed by a scale of its own.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._outputs, self._inputs = weight.shape
        self._limit = min(MAX_LIMIT, MAX_SUM // (127 * self._inputs))
        self._bias = _whole_panels(bias)
        panels = -(-self._outputs // COLUMNS)
        self._packed = torch.empty(panels, self._inputs, COLUMNS, dtype=torch.int8)
        self._scales = torch.empty(panels * COLUMNS)
        weight = weight.contiguous()
        places = (each.data_ptr() for each in (weight, self._packed, self._scales))
        compute("gm_pack_int8", PackInt8(*places, self._inputs, self._outputs), rows=panels)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = empty((len(x), self._outputs))
        narrowed, units = empty(x.shape, torch.int16), empty((len(x),))
        tensors = (x, self._packed, self._scales, narrowed, units)
        places = (each.data_ptr() for each in tensors)
        of = LinearInt8(*places, _result(self._bias, out), self._inputs, self._limit)
        compute("gm_linear_int8", of, rows=len(x))
        return out

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The weight's own rows, as they were rounded."""
        pairs = self._packed.view(len(self._packed), -1, COLUMNS, PAIR)
        whole = pairs[index // COLUMNS, :, index % COLUMNS].flatten(1)
        return whole * self._scales[index].unsqueeze(1)


def _result(bias: torch.Tensor | None, out: torch.Tensor) -> Result:
    return Result(None if bias is None else bias.data_ptr(), out.data_ptr(), out.shape[1])


def _whole_panels(bias: torch.Tensor | None) -> torch.Tensor | None:
    return None if bias is None else F.pad(bias, (0, -len(bias) % COLUMNS))
