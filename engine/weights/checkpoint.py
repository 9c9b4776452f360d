"""A model on disk, whatever format it is in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Names and configuration as Hugging Face writes them; tensors are read when asked for.

    source: where it lies, for messages
    config: what config.json says; a GGUF's metadata is translated to the same words
    digest: changes when the files do; part of the name of everything computed with these weights
    """

    source: str
    config: Mapping[str, Any]
    names: frozenset[str]
    tensor: Callable[[str], torch.Tensor]
    digest: bytes
