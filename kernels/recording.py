"""Records a pass over a model, to compute it again and again with one call."""

from collections.abc import Callable
from typing import Protocol

import torch

from kernels import native
from kernels.attention_metadata import AttentionMetadata
from kernels.dispatch import ops_for


class Recorded(Protocol):
    def run(self, tokens: int, metadata: AttentionMetadata | None) -> torch.Tensor:
        """Compute the pass again on the first `tokens` rows of what it reads.

        metadata: the step's, instead of the one that was recorded; None if there was none
        Returns as many rows of its result; the next run overwrites them.
        """
        ...


def record(
    forward: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, *, tokens: int
) -> Recorded | None:
    """Record what `forward` computes of x [tokens, ...] by ops of this package.

    Nothing is computed meanwhile.  What the pass reads stays where it is: fill it anew before each
    run, and keep it.  None where a pass cannot be recorded: on other devices than a CPU, without a
    compiler, or if it asks PyTorch for more than views, as ops do for sizes and types that they
    have no kernel for.
    """
    if ops_for(x) is not native:
        return None
    return native.record(lambda: forward(x), tokens=tokens)
