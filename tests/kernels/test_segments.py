"""How the C path cuts attention into segments: integers, and what is computed over random trees."""

import random
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
import torch

from kernels import AttentionMetadata, native, reference
from kernels.native.library import MAX_VECTORS, TILE
from kernels.native.segments import Segments, cut_into_runs
from kernels.runs import Chunk, Run
from tests.kernels.ops.caches import cached
from tests.kernels.ops.tolerance import assert_as_good_as_plain

compiled = pytest.mark.skipif(native.library() is None, reason="no C compiler, or no AVX2")

BLOCK = 16
UNIT = TILE // BLOCK  # blocks that are shared or not shared together


def runs_of(tables, starts, *, shared=True):
    """Of one decode a table, at these positions."""
    width = max(map(len, tables))
    padded = np.array([[*table, *[-1] * (width - len(table))] for table in tables], dtype=np.int32)
    chunks = [Chunk(row, row, start, start + 1) for row, start in enumerate(starts)]
    return list(cut_into_runs(chunks, padded, block_size=BLOCK, shared=shared))


def shared_runs(runs):
    return [
        (run.level, [chunk.table for chunk in run.chunks], run.first, run.end)
        for run in runs
        if not run.ends
    ]


def blocks(count, first):
    return list(range(first, first + count))


def test_what_a_system_prompt_and_two_documents_share_is_three_runs():
    system, one, other = blocks(8, 0), blocks(8, 100), blocks(8, 200)
    tables = [[*system, *document, own] for own in (300, 301) for document in (one, other)]

    runs = runs_of(tables, [16 * BLOCK] * 4)

    assert sorted(shared_runs(runs)) == [
        (0, [0, 2, 1, 3], 0, 128),
        (1, [0, 2], 128, 256),
        (1, [1, 3], 128, 256),
    ]


def test_a_prefix_too_short_to_be_worth_it_is_read_by_each():
    tables = [[*blocks(UNIT, 0), 100], [*blocks(UNIT, 0), 200]]

    runs = runs_of(tables, [TILE, TILE])

    assert runs == [Run(0, run.chunks, 0, TILE + 1, ends=True) for run in runs]


def test_a_part_of_a_tile_is_not_shared():
    tables = [[*blocks(3 * UNIT + 1, 0), own] for own in (100, 200)]

    runs = runs_of(tables, [len(tables[0]) * BLOCK - 1] * 2)

    assert shared_runs(runs) == [(0, [0, 1], 0, 3 * TILE)]


def test_nothing_is_shared_that_this_step_computes():
    tables = [blocks(4 * UNIT, 0)] * 2

    runs = runs_of(tables, [3 * TILE, 2 * TILE + 5])

    assert shared_runs(runs) == [(0, [1, 0], 0, 2 * TILE)]


def random_tree(random_, num_seqs, depth=3):
    """Tables that fork at random places, and blocks that no one else has."""
    tables = [list[int]() for _ in range(num_seqs)]
    fresh = iter(range(10**6))
    groups = [list(range(num_seqs))]
    for _ in range(depth):
        for group in groups:
            common = [next(fresh) for _ in range(random_.randrange(0, 3 * UNIT))]
            for seq in group:
                tables[seq] += common
        groups = [part for group in groups for part in (group[::2], group[1::2]) if part]
    for table in tables:
        table += [next(fresh) for _ in range(random_.randrange(1, 2 * UNIT))]
    return tables


@pytest.mark.parametrize("seed", range(30))
def test_every_row_meets_every_key_once_and_in_order(seed):
    random_ = random.Random(seed)
    tables = random_tree(random_, 12)
    starts = [random_.randrange(len(table) * BLOCK) for table in tables]

    runs = runs_of(tables, starts)

    met = defaultdict[int, list[int]](list)
    for run in sorted(runs, key=lambda run: run.level):
        assert len({tuple(tables[chunk.table][: run.end // BLOCK]) for chunk in run.chunks}) == 1
        for chunk in run.chunks:
            met[chunk.table] += range(run.first, run.end)
    assert met == {row: list(range(start + 1)) for row, start in enumerate(starts)}


def test_hundreds_of_nested_prefixes_are_no_trouble():
    tables = [blocks(UNIT * length + 1, 0) for length in range(500)]

    runs = runs_of(tables, [TILE * length for length in range(500)])

    assert sum(run.ends for run in runs) == 500


def test_segments_have_no_more_vectors_than_the_kernel_holds():
    chunks = [Chunk(0, 0, 100, 400), Chunk(1, 300, 5, 6)]
    tables = np.arange(50, dtype=np.int32).reshape(2, 25)

    segments = Segments(7, 4, None)

    segments.cut(chunks, tables, block_size=BLOCK, threads=1)

    listed, _ = segments.longest_first()
    rows, heads = listed[:, 4] - listed[:, 3], listed[:, 6] - listed[:, 5]
    assert (rows * heads * 7 <= MAX_VECTORS).all()
    assert (rows * heads).sum() == 301 * 4


@pytest.mark.parametrize(("threads", "parts"), [(1, 32), (4, 32), (5, 32 * 8), (64, 32 * 8)])
def test_there_are_more_segments_than_threads_where_heads_are_enough_for_that(threads, parts):
    chunks = [Chunk(row, row, 100, 101) for row in range(32)]
    tables = np.arange(32 * 7, dtype=np.int32).reshape(32, 7)
    segments = Segments(4, 8, None)

    segments.cut(chunks, tables, block_size=BLOCK, threads=threads)

    listed, _ = segments.longest_first()
    assert len(listed) == parts


def random_step(random_, kv_type=torch.float32):
    """Decodes, then chunks, over a random tree; what must not be read is poison."""
    generator = torch.Generator().manual_seed(random_.randrange(10**6))
    num_seqs, kv_heads, sharing, dim = 9, random_.choice([1, 3]), random_.choice([1, 3, 7]), 32
    tables = random_tree(random_, num_seqs)
    num_decodes = random_.randrange(num_seqs + 1)
    lens = [random_.randint(BLOCK * (len(table) - 1) + 1, BLOCK * len(table)) for table in tables]
    private = [
        BLOCK * (len(set(table) - _others(tables, seq)) - 1) for seq, table in enumerate(tables)
    ]
    counts = [
        1 if seq < num_decodes else random_.randint(1, max(1, private[seq]))
        for seq in range(num_seqs)
    ]
    used = sorted({block for table in tables for block in table})
    number = {block: place for place, block in enumerate(used)}
    width = max(map(len, tables))
    shape = (len(used) + 1, BLOCK, kv_heads, dim)
    caches = [torch.randn(shape, generator=generator).to(kv_type) for _ in range(2)]
    for cache in caches:
        cache[-1] = float("nan")
        for table, seq_len in zip(tables, lens, strict=True):
            cache[number[table[-1]], (seq_len - 1) % BLOCK + 1 :] = float("nan")
    padded = [
        [*(number[block] for block in table), *[len(used)] * (width - len(table))]
        for table in tables
    ]
    metadata = AttentionMetadata(
        block_tables=torch.tensor(padded, dtype=torch.int32),
        seq_lens=torch.tensor(lens, dtype=torch.int32),
        query_starts=torch.tensor([0, *counts]).cumsum(0).int(),
        num_decodes=num_decodes,
        max_query_len=max(counts),
        max_seq_len=max(lens),
    )
    q = torch.randn(sum(counts), kv_heads * sharing, dim, generator=generator)
    return q, *cached(*caches), metadata


def _others(tables, seq):
    return {block for other, table in enumerate(tables) if other != seq for block in table}


@compiled
@pytest.mark.parametrize("seed", range(24))
def test_attention_over_a_random_tree_is_that_of_fp64(seed):
    q, k_cache, v_cache, metadata = random_step(random.Random(seed))

    out = native.paged_attention(q, k_cache, v_cache, metadata, scale=0.2, window=None)

    gold, plain = (
        reference.paged_attention(
            q.to(dtype), k_cache.to(dtype), v_cache.to(dtype), metadata, scale=0.2
        )
        for dtype in (torch.float64, torch.float32)
    )
    assert_as_good_as_plain(out, plain, gold)


@compiled
@pytest.mark.parametrize("seed", range(24))
def test_sharing_changes_no_bit(seed):
    q, k_cache, v_cache, metadata = random_step(random.Random(seed))
    together = native.paged_attention(q, k_cache, v_cache, metadata, scale=0.2, window=None)

    starts = metadata.query_starts.tolist()
    for seq, (row, end) in enumerate(pairwise(starts)):
        alone = AttentionMetadata(
            block_tables=metadata.block_tables[seq : seq + 1],
            seq_lens=metadata.seq_lens[seq : seq + 1],
            query_starts=torch.tensor([0, end - row], dtype=torch.int32),
            num_decodes=0,
            max_query_len=end - row,
            max_seq_len=metadata.max_seq_len,
        )
        out = native.paged_attention(q[row:end], k_cache, v_cache, alone, scale=0.2, window=None)
        assert torch.equal(out, together[row:end])


@compiled
def test_keys_and_values_may_be_narrower_than_queries():
    q, k_cache, v_cache, metadata = random_step(random.Random(0), torch.float16)

    out = native.paged_attention(q, k_cache, v_cache, metadata, scale=0.2, window=None)

    wide = native.paged_attention(
        q, *cached(k_cache.float(), v_cache.float()), metadata, scale=0.2, window=None
    )
    assert torch.equal(out, wide)
