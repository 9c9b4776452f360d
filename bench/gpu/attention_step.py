"""Random inputs for one call of paged attention, as a step of the engine would make them."""

from dataclasses import dataclass

import torch

from kernels import AttentionMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """decodes: the length of each decoding sequence, in tokens
    chunks: (query rows, length) of each prefill chunk
    shared: tokens that all sequences have in the same blocks; a multiple of block_size
    """

    decodes: tuple[int, ...] = ()
    chunks: tuple[tuple[int, int], ...] = ()
    shared: int = 0
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    block_size: int = 16

    @property
    def query_lens(self) -> list[int]:
        return [1] * len(self.decodes) + [rows for rows, _ in self.chunks]

    @property
    def seq_lens(self) -> list[int]:
        return [*self.decodes, *(length for _, length in self.chunks)]

    @property
    def scale(self) -> float:
        return float(self.head_dim**-0.5)

    def distinct_tokens(self) -> int:
        """Tokens whose K and V must be read at least once."""
        return self.shared + sum(length - self.shared for length in self.seq_lens)

    def flops(self) -> int:
        """Of the products with K and with V, each row over itself and all before it."""
        seen = sum(
            (length * (length + 1) - (length - rows) * (length - rows + 1)) // 2
            for rows, length in zip(self.query_lens, self.seq_lens, strict=True)
        )
        return 4 * self.heads * self.head_dim * seen


@dataclass(frozen=True, slots=True)
class AttentionStep:
    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    metadata: AttentionMetadata


def random_step(shape: StepShape, dtype: torch.dtype, device: torch.device) -> AttentionStep:
    """Blocks lie scattered; those that no sequence owns hold NaN."""
    tables, num_blocks = _block_tables(shape)
    cache_shape = (num_blocks + 1, shape.block_size, shape.kv_heads, shape.head_dim)

    def cache() -> torch.Tensor:
        values = torch.randn(cache_shape, dtype=dtype, device=device)
        values[num_blocks] = float("nan")
        return values

    starts = torch.tensor([0, *shape.query_lens]).cumsum(0)
    return AttentionStep(
        torch.randn(int(starts[-1]), shape.heads, shape.head_dim, dtype=dtype, device=device),
        cache(),
        cache(),
        AttentionMetadata(
            block_tables=tables.to(device, torch.int32),
            seq_lens=torch.tensor(shape.seq_lens, dtype=torch.int32, device=device),
            query_starts=starts.to(device, torch.int32),
            num_decodes=len(shape.decodes),
            max_query_len=max(shape.query_lens),
            max_seq_len=max(shape.seq_lens),
        ),
    )


def _block_tables(shape: StepShape) -> tuple[torch.Tensor, int]:
    """[sequences, longest]; an entry that is not read names the block of NaN, the last."""
    num_shared = shape.shared // shape.block_size
    counts = [-(-length // shape.block_size) - num_shared for length in shape.seq_lens]
    num_blocks = num_shared + sum(counts)
    scattered = torch.randperm(num_blocks)
    tables = torch.full((len(counts), num_shared + max(counts)), num_blocks)
    tables[:, :num_shared] = scattered[:num_shared]
    own = torch.split(scattered[num_shared:], counts)
    for row, blocks in zip(tables, own, strict=True):
        row[num_shared : num_shared + len(blocks)] = blocks
    return tables, num_blocks
