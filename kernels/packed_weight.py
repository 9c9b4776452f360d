"""Weights of products in the order in which a CPU reads them fastest."""

from typing import Protocol

import torch

from kernels import native
from kernels.native.packed_weight import INT8_STEP, PackedInt8Weight, PackedWeight


class Packed(Protocol):
    """x [num_rows, in_features] fp32 to [num_rows, out_features] fp32."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """Rows of the weight by their numbers: an embedding need not be kept a second time."""
        ...


def pack_weight(weight: torch.Tensor, bias: torch.Tensor | None) -> PackedWeight | None:
    """Pack a weight [out_features, in_features] and a bias [out_features].

    Returns what computes x @ weight.T + bias, each row by itself: its result is the same bit for
    bit whatever other rows there are.  None where there is no kernel for it: for other types than
    fp32, on other devices than a CPU, or without a compiler.
    """
    return PackedWeight(weight, bias) if _can_pack(weight) else None


def pack_int8_weight(weight: torch.Tensor, bias: torch.Tensor | None) -> PackedInt8Weight | None:
    """The same with the weight rounded to int8, a scale for each of its rows, given in fp32.

    Rows of x are rounded to int16, or less where sums would overflow, by a scale of their own.
    None also where in_features is no multiple of 16.
    """
    fits = weight.shape[1] % INT8_STEP == 0
    return PackedInt8Weight(weight, bias) if fits and _can_pack(weight) else None


def _can_pack(weight: torch.Tensor) -> bool:
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return plain and native.library() is not None
