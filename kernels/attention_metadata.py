"""Where each sequence of a step has its keys, and which rows of the step batch are its queries."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

T = TypeVar("T")


class HostStep(NamedTuple):
    """Tables, lengths and starts in the host's memory, where attention is planned."""

    block_tables: np.ndarray
    seq_lens: np.ndarray
    query_starts: np.ndarray


@dataclass(frozen=True, eq=False)
class AttentionMetadata:
    """One step's chunks, as `paged_attention` sees them.  Built once, read by every layer.

    block_tables:  [num_seqs, max_blocks] int32.  Entry j of a row is the block with positions
                   j*block_size up to (j+1)*block_size; entries past the last are not read.
    seq_lens:      [num_seqs] int32, in tokens, this step's included.  0 marks a padding row, which
                   has one query row among the decodes, or none among the prefills.
    query_starts:  [num_seqs + 1] int32.  Sequence i owns the rows query_starts[i] up to
                   query_starts[i+1] of q; they are its last tokens.  The last entry is len(q).
    num_decodes:   the first so many sequences have exactly one query row; the rest are chunks.
    max_query_len: of the chunks and decodes, in tokens; at least the true maximum.
    max_seq_len:   in tokens; at least the true maximum.
    host:          the first three, if the caller has them on the host: then nothing waits for a
                   device to give them back.

    Raises ValueError if a shape or dtype disagrees with the above.
    """

    block_tables: torch.Tensor
    seq_lens: torch.Tensor
    query_starts: torch.Tensor
    num_decodes: int
    max_query_len: int
    max_seq_len: int
    host: HostStep | None = None
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        tensors = (self.block_tables, self.seq_lens, self.query_starts)
        if any(tensor.dtype != torch.int32 for tensor in tensors):
            raise ValueError("block_tables, seq_lens and query_starts must be int32")
        num_seqs = self.num_seqs
        if self.block_tables.ndim != 2 or self.block_tables.shape[0] != num_seqs:
            raise ValueError(f"{num_seqs} sequences need {num_seqs} block tables")
        if self.query_starts.shape != (num_seqs + 1,):
            raise ValueError(f"{num_seqs} sequences need {num_seqs + 1} query starts")
        if self.host and any(
            there.shape != tuple(here.shape) for there, here in zip(self.host, tensors, strict=True)
        ):
            raise ValueError("what is on the host is not what is on the device")
        if not 0 <= self.num_decodes <= num_seqs:
            raise ValueError(f"{self.num_decodes} decodes among {num_seqs} sequences")

    @property
    def num_seqs(self) -> int:
        return self.seq_lens.shape[0]

    @property
    def num_prefills(self) -> int:
        return self.num_seqs - self.num_decodes

    def on_host(self) -> HostStep:
        if self.host is not None:
            return self.host
        tensors = (self.block_tables, self.seq_lens, self.query_starts)
        return HostStep(*(tensor.cpu().numpy() for tensor in tensors))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` gave the first time it was asked for under `key`.

        What depends only on the step (gather indices, masks, scratch) is made by the first layer
        and found by the others; it dies with the step.
        """
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made
