"""Attention in parts, as Triton computes it: however a step is cut, one pass is what it gives.

Here parts are drawn at random; `tests/kernels/test_sharing.py` is about those that are chosen.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernels import AttentionMetadata, paged_attention, reference
from kernels.settings import INTERPRETED
from tests.kernels.ops.tolerance import TOLERANCE, assert_as_good_as_plain

if not (INTERPRETED or torch.cuda.is_available()):
    pytest.skip("no Triton here: C computes, or PyTorch", allow_module_level=True)

from kernels.gpu.attention_call import AttentionCall
from kernels.gpu.attention_parts import Heights, Part, lay_out
from kernels.gpu.paged_attention import attend, geometry_of
from kernels.gpu.sharing import choose_parts

DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
SCALE = 0.3


@dataclass(frozen=True)
class Seq:
    """Its last `rows` tokens are query rows; `own` more are its own, behind what its group shares.

    cuts: of its own keys, after each of which another part begins; none is computed after the last
    """

    rows: int
    own: int
    cuts: tuple[int, ...] = ()
    decodes: bool = False


@dataclass(frozen=True)
class Group:
    """together: members who meet the shared keys in the same parts, and where those are cut"""

    shared_blocks: int
    members: tuple[Seq, ...]
    together: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@dataclass(frozen=True)
class Step:
    groups: tuple[Group, ...]
    block_size: int = 16
    heads: tuple[int, int] = (4, 2)
    head_dim: int = 64
    heights: tuple[int, int] = (1, 2)
    dtype: torch.dtype = torch.float32


def cuts_up_to(end):
    """Pieces of one key and of none are among those between."""
    cut = st.one_of(st.integers(0, end), st.sampled_from([0, 1, max(0, end - 1), end]))
    return st.lists(cut.filter(lambda place: place <= end), max_size=3).map(sorted).map(tuple)


@st.composite
def groups(draw, block_size):
    shared = draw(st.integers(0, 3 if block_size < 16 else 2))
    members = []
    for rows in draw(st.lists(st.sampled_from([1, 1, 2, 6]), min_size=1, max_size=3)):
        own = draw(st.integers(0, 30))
        # The first row sees its own key too, and nothing after it.
        members.append(Seq(rows, own, draw(cuts_up_to(own + 1)), rows == 1 and draw(st.booleans())))
    order = draw(st.permutations(range(len(members))))
    bounds = (0, *draw(cuts_up_to(len(members))), len(members))
    together = tuple(
        (tuple(order[low:high]), draw(cuts_up_to(shared * block_size)))
        for low, high in pairwise(bounds)
        if low < high
    )
    return Group(shared, tuple(members), together)


@st.composite
def steps(draw):
    block_size = draw(st.sampled_from([1, 3, 16]))
    kv_heads, sharing = draw(st.sampled_from([(2, 1), (1, 3), (2, 4), (1, 7), (1, 8)]))
    return Step(
        groups=tuple(draw(st.lists(groups(block_size), min_size=1, max_size=2))),
        block_size=block_size,
        heads=(kv_heads * sharing, kv_heads),
        head_dim=draw(st.sampled_from([64, 80, 96, 128])),
        # No higher than the lower tile of any type is.
        heights=(draw(st.integers(1, 16 // sharing)), draw(st.integers(1, 32 // sharing))),
        dtype=draw(st.sampled_from(list(TOLERANCE))),
    )


def laid_out(step):
    """q, the caches and metadata; parts; and the first key of each sequence that is in none."""
    places = [(g, m) for g, group in enumerate(step.groups) for m in range(len(group.members))]
    places.sort(key=lambda place: not step.groups[place[0]].members[place[1]].decodes)
    seqs = [step.groups[g].members[m] for g, m in places]
    shared = [step.groups[g].shared_blocks * step.block_size for g, _ in places]
    lens = [before + seq.own + seq.rows for before, seq in zip(shared, seqs, strict=True)]
    starts = np.cumsum([0, *(seq.rows for seq in seqs)])
    metadata = AttentionMetadata(
        block_tables=tables_of(step, places, lens),
        seq_lens=torch.tensor(lens, dtype=torch.int32, device=DEVICE),
        query_starts=torch.tensor(starts, dtype=torch.int32, device=DEVICE),
        num_decodes=sum(seq.decodes for seq in seqs),
        max_query_len=max(seq.rows for seq in seqs),
        max_seq_len=max(lens),
    )
    rows = [np.arange(*bounds) for bounds in pairwise(starts)]
    parts, key_starts = [], np.array(shared)
    for g, group in enumerate(step.groups):
        end = group.shared_blocks * step.block_size
        for members, cuts in group.together:
            tables = [places.index((g, m)) for m in members]
            theirs = np.concatenate([rows[table] for table in tables])
            parts += [Part(theirs, tables[-1], *keys) for keys in pairwise((0, *cuts, end))]
    for table, seq in enumerate(seqs):
        cuts = [int(shared[table]) + cut for cut in (0, *seq.cuts)]
        parts += [Part(rows[table], table, *keys) for keys in pairwise(cuts)]
        key_starts[table] = cuts[-1]
    return *tensors_of(step, metadata), metadata, parts, key_starts


def tables_of(step, places, lens):
    """What is not read is poison, as the last block is."""
    width = max(-(-seq_len // step.block_size) for seq_len in lens) + 1
    free = iter(range(len(lens) * width))
    shared = [[next(free) for _ in range(group.shared_blocks)] for group in step.groups]
    tables = torch.full((len(lens), width), 2**30, dtype=torch.int32)
    for table, (g, _), seq_len in zip(tables, places, lens, strict=True):
        num_own = -(-seq_len // step.block_size) - len(shared[g])
        blocks = [*shared[g], *(next(free) for _ in range(num_own))]
        table[: len(blocks)] = torch.tensor(blocks)
    return tables.to(DEVICE)


def tensors_of(step, metadata):
    generator = torch.Generator().manual_seed(0)
    num_heads, kv_heads = step.heads
    num_blocks = metadata.block_tables.numel()
    shape = (num_blocks, step.block_size, kv_heads, step.head_dim)
    caches = [torch.randn(shape, generator=generator) for _ in range(2)]
    ends = zip(metadata.block_tables.tolist(), metadata.seq_lens.tolist(), strict=True)
    for table, seq_len in ends:
        last, used = divmod(seq_len - 1, step.block_size)
        for cache in caches:
            cache[table[last], used + 1 :] = float("nan")
    num_rows = int(metadata.query_starts[-1])
    q = torch.randn(num_rows, num_heads, step.head_dim, generator=generator)
    return [x.to(DEVICE, step.dtype) for x in (q, *caches)]


ONE = Seq(rows=1, own=0, decodes=True)
WHOLE = Step((Group(1, (ONE, ONE, Seq(rows=2, own=3)), (((0, 1, 2), ()),)),))
NESTED = Step(
    (
        Group(
            2,
            (Seq(rows=1, own=9, decodes=True, cuts=(10,)), Seq(rows=1, own=9), Seq(5, 5)),
            (((0, 2), (16, 16)), ((1,), (1, 31))),
        ),
    )
)


@example(step=WHOLE)
@example(step=NESTED)
@given(step=steps())
@settings(max_examples=20, deadline=None)
def test_however_a_step_is_cut_its_attention_is_that_of_fp64(step):
    q, k_cache, v_cache, metadata, parts, key_starts = laid_out(step)
    laid = lay_out(parts, key_starts, q, heights=Heights(*step.heights))

    call = AttentionCall.of(q, k_cache, v_cache, metadata, scale=SCALE, window=None)
    out = attend(replace(call, parts=laid))

    assert_is_that_of_fp64(out, (q, k_cache, v_cache), metadata)


def assert_is_that_of_fp64(out, tensors, metadata, window=None):
    gold, plain = (
        reference.paged_attention(
            q, k_cache, v_cache, metadata, scale=SCALE, window=window, compute_dtype=q.dtype
        )
        for q, k_cache, v_cache in ([x.double() for x in tensors], tensors)
    )
    assert_as_good_as_plain(out, plain, gold)


# What a dozen share is worth a launch, and one of them has a context that is worth another.
LARGE = Step(
    (
        Group(
            32,
            (*[Seq(rows=1, own=2, decodes=True)] * 11, Seq(1, 1060, decodes=True), Seq(5, 3)),
            (),
        ),
    ),
    heads=(8, 8),
    head_dim=128,
)


def test_what_is_shared_and_what_is_long_is_computed_in_parts():
    q, k_cache, v_cache, metadata, _, _ = laid_out(LARGE)
    call = AttentionCall.of(q, k_cache, v_cache, metadata, scale=SCALE, window=None)
    chosen, _ = choose_parts(metadata.on_host(), metadata.num_decodes, geometry_of(call))

    out = paged_attention(q, k_cache, v_cache, metadata, scale=SCALE)

    assert {(len(part.rows), part.first) for part in chosen} == {(17, 0), (1, 512)}
    assert_is_that_of_fp64(out, (q, k_cache, v_cache), metadata)


def test_under_a_window_nothing_is_computed_in_parts():
    q, k_cache, v_cache, metadata, _, _ = laid_out(LARGE)

    out = paged_attention(q, k_cache, v_cache, metadata, scale=SCALE, window=100)

    assert_is_that_of_fp64(out, (q, k_cache, v_cache), metadata, window=100)
