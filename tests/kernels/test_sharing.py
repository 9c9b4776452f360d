"""Which parts of a step Triton computes by themselves: integers only."""

import random
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from kernels.attention_metadata import HostStep

pytest.importorskip("triton")

from kernels.gpu.attention_parts import Heights
from kernels.gpu.sharing import MIN_PIECE, Geometry, choose_parts

BLOCK = 16
LLAMA_3_8B = Geometry(
    num_heads=32,
    kv_heads=8,
    head_dim=128,
    block_size=BLOCK,
    itemsize=2,
    heights=Heights(narrow=4, wide=32),
    prefill_rows=16,
    multiprocessors=132,
)


def step_of(shared, seqs):
    """seqs: (query rows, length) of each sequence behind `shared` tokens that all have."""
    fresh = iter(range(10**6))
    common = [next(fresh) for _ in range(shared // BLOCK)]
    tables = [[*common, *(next(fresh) for _ in range(-(-length // BLOCK)))] for _, length in seqs]
    return host_step(tables, [rows for rows, _ in seqs], [shared + length for _, length in seqs])


def host_step(tables, counts, lens):
    width = max(map(len, tables))
    padded = [[*table, *[2**30] * (width - len(table))] for table in tables]
    starts = np.cumsum([0, *counts])
    return HostStep(*(np.array(array, dtype=np.int32) for array in (padded, lens, starts)))


def parts_of(step, *, num_decodes=None, geometry=LLAMA_3_8B):
    """(query rows, first key, end) of each part, and the first keys of what is in none."""
    decodes = len(step.seq_lens) if num_decodes is None else num_decodes
    parts, key_starts = choose_parts(step, decodes, geometry)
    return [(part.rows.tolist(), part.first, part.end) for part in parts], key_starts.tolist()


def test_a_large_group_of_decodes_meets_a_long_prefix_once():
    step = step_of(2000, [(1, 300)] * 1024)

    parts, key_starts = parts_of(step)

    assert parts == [(list(range(1024)), 0, 2000)]
    assert key_starts == [2000] * 1024


@pytest.mark.parametrize(
    "step",
    [
        step_of(32, [(1, 300)] * 200),
        step_of(600, [(1, 300)] * 9),
        step_of(600, [(1, 300)]),
        step_of(0, [(1, 300)] * 200),
    ],
    ids=["too short", "too few", "one", "nothing"],
)
def test_what_saves_less_than_a_launch_costs_is_not_shared(step):
    parts, key_starts = parts_of(step)

    assert parts == []
    assert set(key_starts) == {0}


def test_several_groups_and_one_that_shares_nothing_stand_in_one_step():
    one, other, alone = (range(first, first + 200) for first in (0, 1000, 2000))
    tables = [[*prefix, 5000 + i] for i, prefix in enumerate([one, other] * 40)] + [[*alone]]
    lens = [200 * BLOCK + 9] * 80 + [60 * BLOCK]

    parts, key_starts = parts_of(host_step(tables, [1] * 81, lens))

    # Groups of forty are too few programs for the card, so their keys are cut too.
    assert {tuple(rows) for rows, _, _ in parts} == {
        tuple(range(0, 80, 2)),
        tuple(range(1, 80, 2)),
    }
    assert key_starts == [200 * BLOCK] * 80 + [0]


def test_the_private_prefills_of_a_group_meet_its_prefix_with_its_decodes():
    step = step_of(2000, [(1, 30)] * 8 + [(20, 20)] * 40)

    parts, key_starts = parts_of(step, num_decodes=8)

    assert {tuple(rows) for rows, _, _ in parts} == {tuple(range(8 + 40 * 20))}
    assert key_starts == [2000] * 48


def test_what_a_chunk_computes_in_this_step_is_in_no_part():
    step = step_of(2000, [(1, 30)] * 100)
    lens = step.seq_lens.copy()
    lens[0] = 1008  # the first is still within its prefix
    starts = np.cumsum([0, *[1] * 99, 500], dtype=np.int32)
    tables = step.block_tables[::-1]

    parts, key_starts = parts_of(HostStep(tables, lens[::-1].copy(), starts), num_decodes=99)

    assert key_starts[-1] <= 508
    assert all(end <= 508 for rows, _, end in parts if 99 in rows)


def test_one_long_context_is_cut_into_enough_programs_to_fill_the_card():
    step = step_of(0, [(1, 32768)])

    parts, key_starts = parts_of(step)

    programs = LLAMA_3_8B.kv_heads * (len(parts) + 1)
    assert 200 <= programs <= 2 * LLAMA_3_8B.multiprocessors
    assert max(end - first for _, first, end in parts) <= 2 * MIN_PIECE
    assert key_starts == [parts[-1][2]]


def test_a_long_context_among_many_short_ones_is_cut_and_they_are_not():
    step = step_of(0, [(1, 500)] * 200 + [(1, 100_000)])

    parts, key_starts = parts_of(step)

    assert {tuple(rows) for rows, _, _ in parts} == {(200,)}
    assert key_starts[:200] == [0] * 200


def test_contexts_that_fill_the_card_are_left_whole():
    parts, _ = parts_of(step_of(0, [(1, 2000)] * 256))

    assert parts == []


def random_tree(random_, num_seqs):
    """Tables that fork at three random depths, of thousands of tokens."""
    tables = [list[int]() for _ in range(num_seqs)]
    fresh = iter(range(10**6))
    groups = [list(range(num_seqs))]
    for _ in range(3):
        for group in groups:
            common = [next(fresh) for _ in range(random_.choice([0, 1, 30, 200]))]
            for seq in group:
                tables[seq] += common
        groups = [part for group in groups for part in (group[::2], group[1::2]) if part]
    for table in tables:
        table += [next(fresh) for _ in range(random_.choice([1, 2, 40, 900]))]
    return tables


@pytest.mark.parametrize("seed", range(30))
def test_every_row_meets_every_key_once(seed):
    random_ = random.Random(seed)
    tables = random_tree(random_, 60)
    lens = [random_.randint(BLOCK * (len(t) - 1) + 1, BLOCK * len(t)) for t in tables]
    num_decodes = random_.choice([0, 30, 60])
    counts = [1] * num_decodes + [
        random_.randint(1, min(length, 300)) for length in lens[num_decodes:]
    ]
    step = host_step(tables, counts, lens)
    geometry = replace(LLAMA_3_8B, multiprocessors=random_.choice([1, 16, 132]))

    parts, key_starts = choose_parts(step, num_decodes, geometry)

    seq_of = np.repeat(np.arange(len(counts)), counts)
    met = defaultdict[int, list[tuple[int, int]]](list)
    for part in parts:
        for row in part.rows.tolist():
            seq, blocks = int(seq_of[row]), -(-part.end // BLOCK)
            assert tables[seq][:blocks] == tables[part.table][:blocks]
            met[row].append((part.first, part.end))
    for row, seq in enumerate(seq_of.tolist()):
        bounds = [*sorted(met[row]), (int(key_starts[seq]), lens[seq])]
        assert bounds[0][0] == 0
        assert [end for _, end in bounds[:-1]] == [first for first, _ in bounds[1:]]
        assert key_starts[seq] <= lens[seq] - counts[seq]
