"""Turns the chunks of a step into the tensors that the model reads."""

from dataclasses import dataclass

import numpy as np
import torch

from engine.step_batch import Chunk, StepBatch
from kernels import AttentionMetadata
from kernels.attention_metadata import HostStep


@dataclass(frozen=True, slots=True)
class StepInputs:
    """token_ids, positions, slot_mapping: [num_tokens] int64; sample_rows: [num_sampled] int64."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    sample_rows: torch.Tensor
    attention: AttentionMetadata


class StepInputBuilder:
    """Fills buffers that live as long as the engine, and copies them to the device.

    What `build` returns is overwritten by the next call.
    """

    def __init__(
        self,
        *,
        max_tokens: int,
        max_seqs: int,
        max_blocks: int,
        block_size: int,
        device: torch.device,
    ) -> None:
        self.max_tokens = max_tokens
        self.max_seqs = max_seqs
        self._block_size = block_size
        self._device = device
        self._tokens = self._buffer((3, max_tokens), torch.int64)  # ids, positions, slots
        self._tables = self._buffer((max_seqs, max_blocks), torch.int32)
        self._lens = self._buffer((max_seqs,), torch.int32)
        self._starts = self._buffer((max_seqs + 1,), torch.int32)
        self._rows = self._buffer((max_seqs,), torch.int64)

    def build(self, batch: StepBatch) -> StepInputs:
        chunks = batch.chunks
        counts = np.array([chunk.num_tokens for chunk in chunks])
        starts = self._starts.numpy()[: len(chunks) + 1]
        np.cumsum(counts, out=starts[1:])
        self._fill_sequences(chunks)
        self._fill_tokens(chunks, starts)
        self._fill_slots(chunks, counts, starts)
        token_ids, positions, slots = self._to_device(self._tokens[:, : starts[-1]])
        return StepInputs(
            token_ids=token_ids,
            positions=positions,
            slot_mapping=slots,
            sample_rows=self._sample_rows(chunks, starts),
            attention=self._attention(batch, max_query_len=int(counts.max())),
        )

    def _sample_rows(self, chunks: list[Chunk], starts: np.ndarray) -> torch.Tensor:
        """The last row of each chunk that pays its sequence's whole debt."""
        samples = np.array([chunk.samples for chunk in chunks])
        rows = starts[1:][samples] - 1
        self._rows.numpy()[: len(rows)] = rows
        return self._to_device(self._rows[: len(rows)])

    def _attention(self, batch: StepBatch, *, max_query_len: int) -> AttentionMetadata:
        num_seqs = len(batch.decodes) + len(batch.prefills)
        max_seq_len = int(self._lens[:num_seqs].max())
        width = -(-max_seq_len // self._block_size)
        tables, lens = self._tables[:num_seqs, :width], self._lens[:num_seqs]
        starts = self._starts[: num_seqs + 1]
        return AttentionMetadata(
            block_tables=self._to_device(tables),
            seq_lens=self._to_device(lens),
            query_starts=self._to_device(starts),
            num_decodes=len(batch.decodes),
            max_query_len=max_query_len,
            max_seq_len=max_seq_len,
            host=HostStep(tables.numpy(), lens.numpy(), starts.numpy()),
        )

    def _fill_sequences(self, chunks: list[Chunk]) -> None:
        tables, lens = self._tables.numpy(), self._lens.numpy()
        for row, chunk in enumerate(chunks):
            table = chunk.seq.block_table
            tables[row, : len(table)] = table
            lens[row] = chunk.start + chunk.num_tokens

    def _fill_tokens(self, chunks: list[Chunk], starts: np.ndarray) -> None:
        ids, positions, _ = self._tokens.numpy()
        for start, chunk in zip(starts.tolist(), chunks, strict=False):
            if chunk.num_tokens == 1:
                ids[start], positions[start] = chunk.seq.token_ids[chunk.start], chunk.start
                continue
            end = start + chunk.num_tokens
            stop = chunk.start + chunk.num_tokens
            ids[start:end] = chunk.seq.token_ids[chunk.start : stop]
            positions[start:end] = np.arange(chunk.start, stop)

    def _fill_slots(self, chunks: list[Chunk], counts: np.ndarray, starts: np.ndarray) -> None:
        num_tokens = int(starts[-1])
        _, positions, slots = self._tokens.numpy()[:, :num_tokens]
        seqs = np.repeat(np.arange(len(chunks)), counts)
        block, offset = np.divmod(positions, self._block_size)
        slots[:] = self._tables.numpy()[seqs, block] * self._block_size + offset
        for start, chunk in zip(starts.tolist(), chunks, strict=False):
            # Only the last token of a prompt that is cached whole: others may read its block now.
            if chunk.start < chunk.seq.num_reused_tokens:
                slots[start] = -1

    def _buffer(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, pin_memory=self._device.type == "cuda")

    def _to_device(self, part: torch.Tensor) -> torch.Tensor:
        return part.to(self._device, non_blocking=True).contiguous()
