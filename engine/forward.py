"""A model's passes over a step, recorded once where the kernels can do that."""

from collections.abc import Callable
from typing import TypeAlias

import torch

from engine.kv_cache import KvCache
from engine.models.decoder import Decoder
from engine.step_inputs import StepInputs
from kernels import AttentionMetadata, record

# A step to its normed hidden states [num_tokens, hidden_size].
Forward: TypeAlias = Callable[[StepInputs], torch.Tensor]
# Rows of them to logits [num_rows, vocab_size].
Head: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


def make_forward(model: Decoder, kv_cache: KvCache, *, max_tokens: int) -> Forward:
    """max_tokens: of a step.  What is returned may be overwritten by the next call."""
    hidden, step = _rows(model, max_tokens), _full_step(max_tokens)
    program = record(
        lambda residual: model.through_layers(residual, step, kv_cache), hidden, tokens=max_tokens
    )
    if program is None:
        return lambda inputs: model.forward(inputs, kv_cache)

    def forward(inputs: StepInputs) -> torch.Tensor:
        num_tokens = len(inputs.token_ids)
        hidden[:num_tokens] = model.embed(inputs.token_ids)
        step.positions[:num_tokens] = inputs.positions
        step.slot_mapping[:num_tokens] = inputs.slot_mapping
        return program.run(num_tokens, inputs.attention)

    return forward


def make_head(model: Decoder, *, max_rows: int) -> Head:
    """What is returned may be overwritten by the next call."""
    hidden = _rows(model, max_rows)
    program = record(model.logits, hidden, tokens=max_rows)
    if program is None:
        return model.logits

    def logits(rows: torch.Tensor) -> torch.Tensor:
        hidden[: len(rows)] = rows
        return program.run(len(rows), None)

    return logits


def _rows(model: Decoder, count: int) -> torch.Tensor:
    return torch.zeros(count, model.shape.hidden_size, dtype=model.dtype, device=model.device)


def _full_step(num_tokens: int) -> StepInputs:
    """One prompt of so many tokens, to be recorded with."""
    positions, slots = torch.zeros(2, num_tokens, dtype=torch.int64)
    return StepInputs(
        token_ids=positions,
        positions=positions,
        slot_mapping=slots,
        sample_rows=positions[:0],
        attention=AttentionMetadata(
            block_tables=torch.zeros(1, 1, dtype=torch.int32),
            seq_lens=torch.tensor([num_tokens], dtype=torch.int32),
            query_starts=torch.tensor([0, num_tokens], dtype=torch.int32),
            num_decodes=0,
            max_query_len=num_tokens,
            max_seq_len=num_tokens,
        ),
    )
