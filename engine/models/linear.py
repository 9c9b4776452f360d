"""Products with weight matrices."""

from collections.abc import Callable

import torch
from torch.nn import functional as F

from kernels import Packed, pack_int8_weight, pack_weight

has_onednn: Callable[[], bool] = torch.backends.mkldnn.is_available


class Linear:
    """x @ weight.T + bias for a weight [out_features, in_features] and a bias [out_features].

    On a CPU in fp32 the weight is kept in the order in which it is read, reordered once, here.
    int8: round the weight, if there is a kernel for that
    """

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None = None, *, int8: bool = False
    ) -> None:
        packed: Packed | None = pack_int8_weight(weight, bias) if int8 else None
        self._packed = packed or pack_weight(weight, bias)
        self._compute = self._packed or _in_pytorch(weight, bias)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._compute(x)

    @property
    def rows(self) -> Callable[[torch.Tensor], torch.Tensor] | None:
        """What gives rows of the weight by their numbers, if it is kept so that it can."""
        return self._packed.rows if self._packed else None


def _in_pytorch(
    weight: torch.Tensor, bias: torch.Tensor | None
) -> Callable[[torch.Tensor], torch.Tensor]:
    on_cpu = weight.device.type == "cpu" and weight.dtype == torch.float32
    if not (on_cpu and has_onednn()):
        return lambda x: F.linear(x, weight, bias)
    reordered = torch.ops.mkldnn._reorder_linear_weight(weight)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, reordered, bias, "none", [], "")
