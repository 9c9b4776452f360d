"""paged_attention, on every path: decodes, chunks and both, over a cache full of poison."""

from dataclasses import dataclass, replace

import pytest
import torch

from kernels import AttentionMetadata, paged_attention, reference
from kernels.settings import INTERPRETED
from tests.kernels.ops.caches import cached
from tests.kernels.ops.tolerance import TOLERANCE, assert_as_good_as_plain

SCALE = 0.3


@dataclass(frozen=True)
class Case:
    """A step: the seq_len of every decode, (query_len, seq_len) of every chunk."""

    decodes: tuple[int, ...] = ()
    chunks: tuple[tuple[int, int], ...] = ()
    num_shared: int = 0  # tokens that all sequences have in the same blocks
    heads: tuple[int, int] = (4, 2)
    head_dim: int = 16
    block_size: int = 4
    window: int | None = None

    @property
    def query_lens(self):
        return [1] * len(self.decodes) + [query_len for query_len, _ in self.chunks]

    @property
    def seq_lens(self):
        return [*self.decodes, *(seq_len for _, seq_len in self.chunks)]


CASES = [
    Case(decodes=(1,)),
    Case(decodes=(1, 4, 5, 23, 150)),
    Case(decodes=(3, 0, 70, 0)),  # padding rows
    Case(chunks=((1, 1),)),
    Case(chunks=((7, 7),)),
    Case(chunks=((5, 12), (33, 33), (1, 9), (40, 131))),
    Case(chunks=((5, 12), (0, 0))),
    Case(decodes=(9, 17), chunks=((6, 6), (3, 20))),
    Case(decodes=(9, 40), chunks=((21, 37),), heads=(9, 3), head_dim=64, block_size=16),
    Case(decodes=(5, 33), chunks=((9, 19),), heads=(14, 2), head_dim=80, block_size=3),
    Case(decodes=(5,), chunks=((3, 8),), heads=(1, 1), head_dim=8, block_size=1),
    Case(decodes=(70,), chunks=((3, 66),), heads=(20, 1), head_dim=32, block_size=128),
    Case(decodes=(201, 260, 193, 230), chunks=((2, 195),), num_shared=192, heads=(6, 3)),
    Case(decodes=(1, 4, 5, 23, 150), window=4),
    Case(decodes=(3, 0, 70), chunks=((0, 0), (2, 2)), window=1),
    Case(chunks=((5, 12), (33, 33), (1, 9), (40, 131), (70, 70)), window=7),
    Case(decodes=(9, 40), chunks=((50, 90),), heads=(9, 3), head_dim=64, block_size=16, window=33),
    Case(decodes=(9, 30), chunks=((5, 12),), window=64),  # nothing is out of sight
    Case(decodes=(201, 260, 193, 230), num_shared=192, heads=(6, 3), window=100),
]


def make_step(case, dtype, device):
    """Inputs in which everything that must not be read is poison."""
    generator = torch.Generator().manual_seed(0)
    num_heads, kv_heads = case.heads
    max_blocks = max(-(-seq_len // case.block_size) for seq_len in case.seq_lens) + 1
    num_blocks = max_blocks * len(case.seq_lens)
    free = iter(torch.randperm(num_blocks, generator=generator).tolist())
    tables = torch.full((len(case.seq_lens), max_blocks), 2**30, dtype=torch.int32)
    shape = (num_blocks, case.block_size, kv_heads, case.head_dim)
    k_cache, v_cache = (torch.full(shape, float("nan")) for _ in range(2))
    for seq, seq_len in enumerate(case.seq_lens):
        for position in range(seq_len):
            block, offset = divmod(position, case.block_size)
            if offset == 0:
                shared = seq > 0 and position < case.num_shared
                tables[seq, block] = tables[0, block] if shared else next(free)
            for cache in (k_cache, v_cache):
                row = torch.randn(kv_heads, case.head_dim, generator=generator)
                cache[tables[seq, block], offset] = row
    q = torch.randn(sum(case.query_lens), num_heads, case.head_dim, generator=generator)
    caches = cached(*(cache.to(device, dtype) for cache in (k_cache, v_cache)))
    return q.to(device, dtype), *caches, make_metadata(case, tables.to(device))


def make_metadata(case, block_tables):
    device = block_tables.device
    starts = torch.tensor([0, *case.query_lens]).cumsum(0)
    return AttentionMetadata(
        block_tables=block_tables,
        seq_lens=torch.tensor(case.seq_lens, dtype=torch.int32, device=device),
        query_starts=starts.to(device, torch.int32),
        num_decodes=len(case.decodes),
        max_query_len=max(case.query_lens),
        max_seq_len=max(case.seq_lens),
    )


def one_sequence(metadata, seq):
    """The same sequence alone in a step."""
    rows = int(metadata.query_starts[seq]), int(metadata.query_starts[seq + 1])
    starts = torch.tensor([0, rows[1] - rows[0]], dtype=torch.int32)
    alone = replace(
        metadata,
        block_tables=metadata.block_tables[seq : seq + 1],
        seq_lens=metadata.seq_lens[seq : seq + 1],
        query_starts=starts.to(metadata.seq_lens.device),
        num_decodes=int(seq < metadata.num_decodes),
    )
    return slice(*rows), alone


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_good_as_the_plain_formula(case, dtype, device):
    q, k_cache, v_cache, metadata = make_step(case, dtype, device)

    out = paged_attention(q, k_cache, v_cache, metadata, scale=SCALE, window=case.window)

    wide = q.double(), k_cache.double(), v_cache.double()
    settings = {"scale": SCALE, "window": case.window}
    gold = reference.paged_attention(*wide, metadata, **settings)
    plain = reference.paged_attention(
        q, k_cache, v_cache, metadata, **settings, compute_dtype=dtype
    )
    assert out.dtype == dtype
    assert_as_good_as_plain(out, plain, gold)


@pytest.mark.parametrize("case", [case for case in CASES if len(case.seq_lens) > 1], ids=str)
def test_a_row_does_not_depend_on_its_batch(case, device):
    q, k_cache, v_cache, metadata = make_step(case, torch.float32, device)

    settings = {"scale": SCALE, "window": case.window}
    together = paged_attention(q, k_cache, v_cache, metadata, **settings)

    # Bit for bit by Triton; the products of the CPU path may sum a padded row in another order.
    exact = INTERPRETED or device == "cuda"
    allowed = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-5, "atol": 1e-6}
    for seq in range(metadata.num_seqs):
        rows, metadata_alone = one_sequence(metadata, seq)
        alone = paged_attention(q[rows], k_cache, v_cache, metadata_alone, **settings)
        torch.testing.assert_close(alone, together[rows], **allowed)


@pytest.mark.parametrize("cut", [1, 5, 16, 39])
def test_a_chunked_prefill_gives_what_a_whole_one_gives(cut, device):
    whole = Case(chunks=((40, 40),))
    q, k_cache, v_cache, metadata = make_step(whole, torch.float32, device)
    tables = metadata.block_tables
    first, second = Case(chunks=((cut, cut),)), Case(chunks=((40 - cut, 40),))

    want = paged_attention(q, k_cache, v_cache, metadata, scale=SCALE)
    parts = [
        paged_attention(rows, k_cache, v_cache, make_metadata(case, tables), scale=SCALE)
        for case, rows in ((first, q[:cut]), (second, q[cut:]))
    ]

    torch.testing.assert_close(torch.cat(parts), want, rtol=1e-5, atol=1e-6)


def test_a_decode_gives_what_a_chunk_of_one_gives(device):
    decode, chunk = Case(decodes=(37,)), Case(chunks=((1, 37),))
    q, k_cache, v_cache, metadata = make_step(decode, torch.float32, device)
    as_chunk = make_metadata(chunk, metadata.block_tables)

    one = paged_attention(q, k_cache, v_cache, metadata, scale=SCALE)
    other = paged_attention(q, k_cache, v_cache, as_chunk, scale=SCALE)

    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", [Case(decodes=(19, 40)), Case(chunks=((21, 37),))], ids=str)
def test_what_is_before_the_window_is_not_read(case, device):
    q, k_cache, v_cache, metadata = make_step(case, torch.float32, device)
    window = 6
    first_row = min(s - n for n, s in zip(case.query_lens, case.seq_lens, strict=True))
    num_hidden = (first_row + 1 - window) // case.block_size
    hidden = metadata.block_tables[:, :num_hidden].flatten().long()

    want = paged_attention(q, k_cache, v_cache, metadata, scale=SCALE, window=window)
    for cache in (k_cache, v_cache):
        cache[hidden] = float("nan")
    out = paged_attention(q, k_cache, v_cache, replace(metadata), scale=SCALE, window=window)

    assert num_hidden > 0
    assert torch.equal(out, want)


def test_layers_with_and_without_a_window_share_a_step(device):
    case = Case(decodes=(9, 40), chunks=((21, 37),))
    q, k_cache, v_cache, metadata = make_step(case, torch.float32, device)

    found = [
        paged_attention(q, k_cache, v_cache, metadata, scale=SCALE, window=window)
        for window in (None, 5, 12, 5)
    ]

    for out, window in zip(found, (None, 5, 12, 5), strict=True):
        alone = paged_attention(q, k_cache, v_cache, replace(metadata), scale=SCALE, window=window)
        assert torch.equal(out, alone)
    assert not torch.equal(found[0], found[1])


def test_layers_of_one_step_do_not_disturb_each_other(device):
    case = Case(decodes=(9, 40), chunks=((21, 37),))
    q, k_cache, v_cache, metadata = make_step(case, torch.float32, device)
    fresh = replace(metadata)

    first = paged_attention(q, k_cache, v_cache, metadata, scale=SCALE)
    second = paged_attention(q, v_cache, k_cache, metadata, scale=SCALE)

    assert torch.equal(first, paged_attention(q, k_cache, v_cache, fresh, scale=SCALE))
    assert torch.equal(second, paged_attention(q, v_cache, k_cache, fresh, scale=SCALE))


def test_takes_a_view_of_a_fused_qkv(device):
    q, k_cache, v_cache, metadata = make_step(Case(decodes=(9, 4)), torch.float32, device)
    fused = torch.cat((q.flatten(1), q.flatten(1)), dim=1)
    view = fused[:, : q[0].numel()].view(q.shape)

    out = paged_attention(view, k_cache, v_cache, metadata, scale=SCALE)

    assert torch.equal(out, paged_attention(q, k_cache, v_cache, metadata, scale=SCALE))


def test_inputs_are_left_alone(device):
    q, k_cache, v_cache, metadata = make_step(CASES[7], torch.float32, device)
    tensors = q, metadata.block_tables, metadata.seq_lens, metadata.query_starts
    before = [tensor.clone() for tensor in tensors]
    caches_before = k_cache.clone(), v_cache.clone()

    paged_attention(q, k_cache, v_cache, metadata, scale=SCALE).zero_()

    assert all(map(torch.equal, tensors, before))
    for cache, cache_before in zip((k_cache, v_cache), caches_before, strict=True):
        torch.testing.assert_close(cache, cache_before, rtol=0, atol=0, equal_nan=True)


def test_refuses_what_it_cannot_compute(device):
    q, k_cache, v_cache, metadata = make_step(Case(decodes=(9, 4)), torch.float32, device)

    with pytest.raises(ValueError, match="cannot share 2 KV heads"):
        paged_attention(q[:, :3].contiguous(), k_cache, v_cache, metadata, scale=SCALE)
    with pytest.raises(ValueError, match="the cache is"):
        paged_attention(q[..., :8].contiguous(), k_cache, v_cache, metadata, scale=SCALE)
    with pytest.raises(ValueError, match="the cache is"):
        paged_attention(q, k_cache, v_cache[:-1], metadata, scale=SCALE)
    with pytest.raises(ValueError, match="dtypes disagree"):
        paged_attention(q.half(), k_cache, v_cache, metadata, scale=SCALE)
    with pytest.raises(ValueError, match="2 decodes, but only 1 query rows"):
        paged_attention(q[:1], k_cache, v_cache, metadata, scale=SCALE)
    with pytest.raises(ValueError, match="a window of 0 tokens"):
        paged_attention(q, k_cache, v_cache, metadata, scale=SCALE, window=0)
