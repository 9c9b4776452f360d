"""Weight matrices in the order in which the C products read them."""

import ctypes

import torch
from torch.nn import functional as F

from kernels.native.library import call

COLUMNS = 16  # as in product.h
PAIR = 2  # as in linear_int8.c
INT8_STEP = 16  # inputs that are narrowed at once
# Rows in int16 have this many steps at most, and fewer where a sum of products could overflow.
MAX_LIMIT = 8191
MAX_SUM = 2**31 - 1


class Product(ctypes.Structure):
    """`struct product` of product.h."""

    _fields_ = tuple(
        (name, ctypes.c_int32) for name in ("rows", "inputs", "outputs", "threads", "limit")
    )


class PackedWeight:
    """x @ weight.T + bias in fp32."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._outputs, self._inputs = weight.shape
        self._bias = _whole_panels(bias) if bias is not None else None
        self._packed = torch.empty(-(-self._outputs // COLUMNS), self._inputs, COLUMNS)
        call("gm_pack", self._product(0), weight.contiguous(), self._packed)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), self._outputs)
        x = x.contiguous()
        call("gm_linear", self._product(len(x)), x, self._packed, self._bias, out)
        return out

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The weight's own rows: an embedding need not be kept a second time."""
        return self._packed[index // COLUMNS, :, index % COLUMNS]

    def _product(self, rows: int) -> Product:
        return Product(rows, self._inputs, self._outputs, torch.get_num_threads(), 0)


class PackedInt8Weight:
    """x @ weight.T + bias with the weight in int8, a scale for each of its rows.

    Each row of x is narrowed by a scale of its own.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._outputs, self._inputs = weight.shape
        self._limit = min(MAX_LIMIT, MAX_SUM // (127 * self._inputs))
        self._bias = _whole_panels(bias) if bias is not None else None
        panels = -(-self._outputs // COLUMNS)
        self._packed = torch.empty(panels, self._inputs, COLUMNS, dtype=torch.int8)
        self._scales = torch.empty(panels * COLUMNS)
        call("gm_pack_int8", self._product(0), weight.contiguous(), self._packed, self._scales)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        num_rows = len(x)
        out = torch.empty(num_rows, self._outputs)
        narrowed = torch.empty(num_rows, self._inputs, dtype=torch.int16)
        units = torch.empty(num_rows)
        x = x.contiguous()
        weight = (self._packed, self._scales, self._bias)
        call("gm_linear_int8", self._product(num_rows), x, *weight, narrowed, units, out)
        return out

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The weight's own rows, as they were rounded."""
        pairs = self._packed.view(len(self._packed), -1, COLUMNS, PAIR)
        whole = pairs[index // COLUMNS, :, index % COLUMNS].flatten(1)
        return whole * self._scales[index].unsqueeze(1)

    def _product(self, rows: int) -> Product:
        return Product(rows, self._inputs, self._outputs, torch.get_num_threads(), self._limit)


def _whole_panels(bias: torch.Tensor) -> torch.Tensor:
    return F.pad(bias, (0, -len(bias) % COLUMNS))
