"""Changes the logits of the rows that ask for it: penalties, biases, bans, a grammar's mask.

All rows' changes are one gather and one scatter of the tokens that they name; a mask alone touches
a whole row.  Element by element, so that a row's result never depends on the rows beside it.
"""

from typing import NamedTuple

import numpy as np
import torch


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


def apply_edits(logits: torch.Tensor, edits: list[Edits]) -> torch.Tensor:
    """Change `logits`, [num_rows, vocab_size] fp32, in place and return it."""
    _penalise(logits, {row: e.penalties for row, e in enumerate(edits) if e.penalties})
    _add_bias(logits, {row: e.bias for row, e in enumerate(edits) if e.bias})
    _ban(logits, {row: e.banned for row, e in enumerate(edits) if e.banned is not None})
    _mask(logits, {row: e.allowed for row, e in enumerate(edits) if e.allowed is not None})
    return logits


def _penalise(logits: torch.Tensor, penalties: dict[int, Penalties]) -> None:
    if not penalties:
        return
    found = list(penalties.values())
    rows, ids = _flat(logits, {row: each.ids for row, each in penalties.items()})
    values = [(each.repetition, each.presence, each.frequency) for each in found]
    spread = np.repeat(np.array(values, dtype=np.float32), [len(e.ids) for e in found], axis=0)
    repetition, presence, frequency = torch.from_numpy(spread).to(logits.device).unbind(1)
    said = torch.from_numpy(np.concatenate([each.said for each in found])).to(logits.device)
    picked = logits[rows, ids]
    picked = torch.where(picked > 0, picked / repetition, picked * repetition)
    logits[rows, ids] = picked - presence * (said > 0) - frequency * said


def _add_bias(logits: torch.Tensor, biases: dict[int, Bias]) -> None:
    if not biases:
        return
    rows, ids = _flat(logits, {row: bias.ids for row, bias in biases.items()})
    values = np.concatenate([bias.values for bias in biases.values()])
    logits[rows, ids] += torch.from_numpy(values).to(logits.device)


def _ban(logits: torch.Tensor, banned: dict[int, np.ndarray]) -> None:
    if banned:
        logits[_flat(logits, banned)] = -torch.inf


def _mask(logits: torch.Tensor, allowed: dict[int, bytes]) -> None:
    if not allowed:
        return
    device, vocab_size = logits.device, logits.shape[1]
    packed = np.stack([np.frombuffer(mask, dtype=np.uint8) for mask in allowed.values()])
    shifts = torch.arange(8, dtype=torch.uint8, device=device)
    bits = torch.from_numpy(packed).to(device)[:, :, None] >> shifts
    forbidden = (bits & 1).flatten(1)[:, :vocab_size] == 0
    rows = torch.tensor(list(allowed), device=device)
    logits[rows] = logits[rows].masked_fill(forbidden, -torch.inf)


def _flat(logits: torch.Tensor, ids: dict[int, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Row and token of everything named, as two index tensors."""
    rows = np.repeat(np.array(list(ids)), [len(each) for each in ids.values()])
    tokens = np.concatenate(list(ids.values()))
    return torch.from_numpy(rows).to(logits.device), torch.from_numpy(tokens).to(logits.device)
