"""Runs one step on the device: chunks in, one token per sampling chunk out.

This file must never know why a sequence is in the step or what becomes of its tokens: no queue, no
stopping, no text, no request.
"""

from collections.abc import Callable

import torch

from engine.forward import make_forward, make_head
from engine.kv_cache import KvCache
from engine.models.decoder import Decoder
from engine.sampling import Draw, Drawn, draw_tokens
from engine.sequence import Sequence
from engine.step_batch import StepBatch
from engine.step_inputs import StepInputBuilder


class ModelRunner:
    def __init__(self, model: Decoder, kv_cache: KvCache, inputs: StepInputBuilder) -> None:
        self._kv_cache = kv_cache
        self._inputs = inputs
        self._forward = make_forward(model, kv_cache, max_tokens=inputs.max_tokens)
        self._head = make_head(model, max_rows=inputs.max_seqs)

    @torch.inference_mode()
    def copy_blocks(self, copies: list[tuple[int, int]]) -> None:
        self._kv_cache.copy_blocks(copies)

    @torch.inference_mode()
    def run(self, batch: StepBatch, draw: Callable[[Sequence], Draw]) -> Drawn:
        """Compute the step.  Returns tokens in the order of those of its chunks that sample.

        draw: how to choose a sequence's next token
        """
        inputs = self._inputs.build(batch)
        hidden = self._forward(inputs)
        draws = [draw(chunk.seq) for chunk in batch.chunks if chunk.samples]
        if not draws:
            return Drawn([], {}, [])
        return draw_tokens(self._head(hidden[inputs.sample_rows]), draws)
