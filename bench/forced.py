"""How often a precision prefers the token that the reference prefers, after text that people wrote.

Completions say little about a precision: after its own first other word a model goes its own way.
So the text is given, and at each of its tokens both are asked for the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from bench.floor import common_length
from engine.config import DTYPES, kv_dtype
from engine.kv_cache import allocate_kv_cache
from engine.models.decoder import Decoder
from engine.models.registry import load_model
from engine.step_inputs import StepInputs
from engine.weights.checkpoint import Checkpoint
from kernels import AttentionMetadata

_BLOCK = 16


Preferences: TypeAlias = Sequence[Sequence[int]]
"""Of each text, and of each token of it, the token that would come next."""


@dataclass(frozen=True, slots=True)
class ForcedAgreement:
    """tokens: how many were asked for; equal_tokens: at how many both prefer the same."""

    tokens: int
    equal_tokens: int


def forced_agreement(
    checkpoint: Checkpoint, reference: Any, texts: Sequence[Sequence[int]], *, precision: str
) -> ForcedAgreement:
    """Of ours with a transformers model's.  texts: tokens"""
    ours = our_preferences(checkpoint, texts, precision=precision, device=reference.device)
    return agreement(texts, ours, their_preferences(reference, texts))


def agreement(
    texts: Sequence[Sequence[int]], left: Preferences, right: Preferences
) -> ForcedAgreement:
    """What texts begin with together counts once."""
    tokens = equal = 0
    before: Sequence[int] = ()
    for text, a, b in sorted(zip(texts, left, right, strict=True), key=lambda each: list(each[0])):
        new = common_length(before, text)
        tokens += len(text) - new
        equal += sum(one == other for one, other in zip(a[new:], b[new:], strict=True))
        before = text
    return ForcedAgreement(tokens, equal)


@torch.inference_mode()
def our_preferences(
    checkpoint: Checkpoint,
    texts: Sequence[Sequence[int]],
    *,
    precision: str,
    device: torch.device,
) -> Preferences:
    dtype = DTYPES[precision]
    model = load_model(checkpoint, device=device, dtype=dtype)
    return [_preferred(model, text, dtype=kv_dtype(dtype)).tolist() for text in texts]


@torch.inference_mode()
def their_preferences(reference: Any, texts: Sequence[Sequence[int]]) -> Preferences:
    """reference: a transformers model"""
    given = (torch.tensor([list(text)], device=reference.device) for text in texts)
    return [reference(text, use_cache=False).logits[0].argmax(dim=-1).tolist() for text in given]


def _preferred(model: Decoder, text: Sequence[int], *, dtype: torch.dtype) -> torch.Tensor:
    """[len(text)]: the token that the model would say next after each."""
    shape, device, count = model.shape, model.device, len(text)
    num_blocks = -(-count // _BLOCK)
    cache = allocate_kv_cache(shape, num_blocks, _BLOCK, dtype=dtype, device=device)
    positions = torch.arange(count, device=device)
    inputs = StepInputs(
        token_ids=torch.tensor(list(text), device=device),
        positions=positions,
        slot_mapping=positions,
        sample_rows=positions,
        attention=AttentionMetadata(
            block_tables=torch.arange(num_blocks, dtype=torch.int32, device=device).unsqueeze(0),
            seq_lens=torch.tensor([count], dtype=torch.int32, device=device),
            query_starts=torch.tensor([0, count], dtype=torch.int32, device=device),
            num_decodes=0,
            max_query_len=count,
            max_seq_len=count,
        ),
    )
    return model.logits(model.forward(inputs, cache)).argmax(dim=-1)
