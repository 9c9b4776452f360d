"""Reads weights one at a time, checked, straight to their device and type."""

from collections.abc import Mapping

import torch

from engine.errors import ModelUnusable
from engine.models.linear import Linear
from engine.weights.checkpoint import Checkpoint


class WeightReader:
    """Every method raises ModelUnusable if a weight is missing or of another shape than asked."""

    def __init__(self, checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype) -> None:
        self._checkpoint = checkpoint
        self._device = device
        # int8 is for what is multiplied with; everything else is then fp32.
        self._int8 = dtype == torch.int8
        self._dtype = torch.float32 if self._int8 else dtype

    def read(self, name: str, *shape: int) -> torch.Tensor:
        return self._checked(name, shape).to(self._device, self._dtype)

    def read_plus_one(self, name: str, *shape: int) -> torch.Tensor:
        """1 + the weight, for norms that are stored as their distance from one."""
        return (self._checked(name, shape).float() + 1).to(self._device, self._dtype)

    def linear(self, parts: Mapping[str, int], columns: int, *, biased: bool = False) -> Linear:
        """Stack the rows of matrices that read the same input.  parts: name to number of rows."""
        matrices = [self.read(f"{name}.weight", rows, columns) for name, rows in parts.items()]
        biases = [self.read(f"{name}.bias", rows) for name, rows in parts.items() if biased]
        return self.product(torch.cat(matrices), torch.cat(biases) if biased else None)

    def product(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        return Linear(weight, bias, int8=self._int8)

    def as_written(self, name: str) -> torch.Tensor | None:
        """Whatever the checkpoint has under this name, in its own shape and type."""
        return self._checkpoint.tensor(name) if name in self._checkpoint.names else None

    def on_device(self, table: torch.Tensor) -> torch.Tensor:
        return table.to(self._device)

    def _checked(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if name not in self._checkpoint.names:
            raise ModelUnusable(f"{self._checkpoint.source} has no weight {name}")
        weight = self._checkpoint.tensor(name)
        if tuple(weight.shape) != shape:
            raise ModelUnusable(
                f"{self._checkpoint.source}: {name} is {tuple(weight.shape)}, "
                f"but the config says {shape}"
            )
        return weight
