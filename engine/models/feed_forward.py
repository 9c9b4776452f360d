"""The gated feed-forward of one layer."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.models.linear import Linear


@dataclass(frozen=True, slots=True)
class FeedForward:
    """gate_up: rows of the gate, then of what it gates; gated: joins the two halves of a row."""

    gate_up: Linear
    gated: Callable[[torch.Tensor], torch.Tensor]
    down: Linear

    def __call__(self, normed: torch.Tensor) -> torch.Tensor:
        return self.down(self.gated(self.gate_up(normed)))
