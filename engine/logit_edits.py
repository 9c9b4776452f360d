"""Changes the logits of the rows that ask for it: penalties, biases, bans, a grammar's mask.

All rows' changes are one gather and one scatter of the tokens that they name; a mask alone touches
a whole row, and no row is copied.  Element by element, so that a row's result never depends on the
rows beside it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

# [256, 8]: of a byte of a mask, what to add to the logits of its eight tokens.
_BITS = torch.arange(256)[:, None] >> torch.arange(8) & 1
_SPELT = torch.zeros(256, 8).masked_fill(_BITS == 0, -torch.inf)
# Logits that are masked at once: on a CPU what its cache holds.
_AT_ONCE = {"cpu": 2**19, "cuda": 2**27}


class Penalties(NamedTuple):
    """ids: the different tokens so far; said: how often each is in the completion.

    repetition: logits of all `ids` are divided by it if positive, multiplied by it if not
    presence, frequency: taken from the logits of what was said, once and once for each time
    """

    ids: np.ndarray
    said: np.ndarray
    repetition: float
    presence: float
    frequency: float


class Bias(NamedTuple):
    """What is added to the logits of different tokens: [num_ids] int64, [num_ids] fp32."""

    ids: np.ndarray
    values: np.ndarray


class Edits(NamedTuple):
    """What changes one row, in the order in which it is done.

    banned: tokens that cannot be drawn; allowed: a bit for each token of the vocabulary, the lowest
    first; those without one cannot be drawn
    """

    penalties: Penalties | None = None
    bias: Bias | None = None
    banned: np.ndarray | None = None
    allowed: bytes | None = None


def apply_edits(logits: torch.Tensor, edits: Mapping[int, Edits]) -> None:
    """Change rows of `logits`, [num_rows, vocab_size], in place: row -> what changes it."""
    _penalise(logits, {row: e.penalties for row, e in edits.items() if e.penalties})
    _add_bias(logits, {row: e.bias for row, e in edits.items() if e.bias})
    _ban(logits, {row: e.banned for row, e in edits.items() if e.banned is not None})
    _mask(logits, {row: e.allowed for row, e in edits.items() if e.allowed is not None})


def _penalise(logits: torch.Tensor, penalties: Mapping[int, Penalties]) -> None:
    if not penalties:
        return
    found = list(penalties.values())
    rows, ids = _flat(logits, {row: each.ids for row, each in penalties.items()})
    values = [(each.repetition, each.presence, each.frequency) for each in found]
    spread = np.repeat(np.array(values, dtype=np.float32), [len(e.ids) for e in found], axis=0)
    repetition, presence, frequency = torch.from_numpy(spread).to(logits.device).unbind(1)
    said = torch.from_numpy(np.concatenate([each.said for each in found])).to(logits.device)
    picked = logits[rows, ids].float()
    picked = torch.where(picked > 0, picked / repetition, picked * repetition)
    picked -= presence * (said > 0) + frequency * said
    logits[rows, ids] = _narrowed(picked, logits.dtype)


def _add_bias(logits: torch.Tensor, biases: Mapping[int, Bias]) -> None:
    if not biases:
        return
    rows, ids = _flat(logits, {row: bias.ids for row, bias in biases.items()})
    values = np.concatenate([bias.values for bias in biases.values()])
    added = logits[rows, ids].float() + torch.from_numpy(values).to(logits.device)
    logits[rows, ids] = _narrowed(added, logits.dtype)


def _narrowed(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What a request asks for may exceed fp16, but must not look like what a broken model gives."""
    most = torch.finfo(dtype).max
    return torch.where(values < torch.inf, values.clamp(max=most), values).to(dtype)


def _ban(logits: torch.Tensor, banned: Mapping[int, np.ndarray]) -> None:
    if banned:
        logits[_flat(logits, banned)] = -torch.inf


def _mask(logits: torch.Tensor, allowed: Mapping[int, bytes]) -> None:
    """Add 0 or -inf, looked up for eight tokens at once: ten times as fast as testing each bit."""
    if not allowed:
        return
    device, vocab_size = logits.device, logits.shape[1]
    packed = np.stack([np.frombuffer(mask, dtype=np.uint8) for mask in allowed.values()])
    masks, rows = torch.from_numpy(packed).to(device), torch.tensor(list(allowed), device=device)
    spelt = _SPELT.to(device, logits.dtype)
    at_once = max(1, _AT_ONCE[device.type] // vocab_size)
    for some, those in zip(torch.split(masks, at_once), torch.split(rows, at_once), strict=True):
        added = F.embedding(some.int(), spelt).flatten(1)
        logits.index_add_(0, those, added[:, :vocab_size])


def _flat(logits: torch.Tensor, ids: Mapping[int, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Row and token of everything named, as two index tensors."""
    rows = np.repeat(np.array(list(ids)), [len(each) for each in ids.values()])
    tokens = np.concatenate(list(ids.values()))
    return torch.from_numpy(rows).to(logits.device), torch.from_numpy(tokens).to(logits.device)
