"""Products with weight matrices."""

from collections.abc import Callable

import torch
from torch.nn import functional as F

has_onednn: Callable[[], bool] = torch.backends.mkldnn.is_available


class Linear:
    """x @ weight.T + bias for a weight [out_features, in_features] and a bias [out_features].

    On a CPU in fp32 the weight is kept in the order in which oneDNN reads it, reordered once, here;
    `F.linear` does that at every call, which costs a third of a small step.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        on_cpu = weight.device.type == "cpu" and weight.dtype == torch.float32
        self._packed = on_cpu and has_onednn()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight) if self._packed else weight
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if not self._packed:
            return F.linear(x, self._weight, self._bias)
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._weight, self._bias, "none", [], ""
        )
        return out
