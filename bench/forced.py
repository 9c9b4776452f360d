"""How often a precision prefers the token that the reference prefers, after text that people wrote.

Completions say little about a precision: after its own first other word a model goes its own way.
So the text is given, and at each of its tokens both are asked for the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bench.floor import common_length
from engine.config import DTYPES, kv_dtype
from engine.models.decoder import Decoder
from engine.models.registry import load_model
from engine.step_inputs import StepInputs
from engine.weights.checkpoint import Checkpoint
from kernels import AttentionMetadata

_BLOCK = 16


@dataclass(frozen=True, slots=True)
class ForcedAgreement:
    """tokens: how many were asked for; equal_tokens: at how many both prefer the same."""

    tokens: int
    equal_tokens: int


@torch.inference_mode()
def forced_agreement(
    checkpoint: Checkpoint, reference: Any, texts: Sequence[Sequence[int]], *, precision: str
) -> ForcedAgreement:
    """reference: a transformers model; texts: tokens; what texts begin with together counts once"""
    dtype, device = DTYPES[precision], reference.device
    model = load_model(checkpoint, device=device, dtype=dtype)
    tokens = equal = 0
    before: Sequence[int] = ()
    for text in sorted(texts, key=list):
        new = common_length(before, text)
        ours = _preferred(model, text, dtype=kv_dtype(dtype))[new:]
        given = torch.tensor([list(text)], device=device)
        theirs = reference(given, use_cache=False).logits[0, new:].argmax(dim=-1)
        tokens += len(ours)
        equal += int((ours == theirs).sum())
        before = text
    return ForcedAgreement(tokens, equal)


def _preferred(model: Decoder, text: Sequence[int], *, dtype: torch.dtype) -> torch.Tensor:
    """[len(text)]: the token that the model would say next after each."""
    shape, device, count = model.shape, model.device, len(text)
    num_blocks = -(-count // _BLOCK)
    cache = torch.zeros(
        *(shape.num_layers, 2, num_blocks, _BLOCK, shape.num_kv_heads, shape.head_dim),
        dtype=dtype,
        device=device,
    )
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
