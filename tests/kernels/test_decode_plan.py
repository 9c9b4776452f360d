"""How the CPU path cuts decodes into products: integers, so by example and against brute force."""

import itertools
import random

import pytest
import torch

from kernels import AttentionMetadata
from kernels.cpu.decode_plan import WORTH_A_PRODUCT, plan_decodes, similar_lengths
from kernels.cpu.shared_prefix import SharedPrefix, shared_prefixes


@pytest.mark.parametrize(
    ("tables", "groups"),
    [
        ([], []),
        ([[1, 2, 3]], []),
        ([[1, 2], [3, 4], []], []),
        ([[1, 2, 5], [1, 2, 6], [9]], [([0, 1], 2)]),
        ([[1, 2], [1, 2], [1, 2]], [([0, 1, 2], 2)]),
        # Two documents behind one system prompt: apart they save 2 * 3 blocks, together 3 * 1.
        ([[1, 2, 3], [1, 2, 3], [1, 4, 5], [1, 4, 5]], [([0, 1], 3), ([2, 3], 3)]),
        # Those whom the others leave behind may still share what is before the fork.
        ([[1, 2, 3], [1, 2, 3], [1, 4], [1, 5]], [([0, 1], 3), ([2, 3], 1)]),
        # A stranger who shares only the first block does not spoil it for the others.
        ([[1, 2, 3, 4], [1, 9], [1, 2, 3, 4], [1, 2, 3, 4]], [([0, 2, 3], 4)]),
    ],
)
def test_finds_who_shares_what(tables, groups):
    assert shared_prefixes(tables) == [SharedPrefix(seqs, blocks) for seqs, blocks in groups]


@pytest.mark.parametrize("seed", range(50))
def test_no_single_group_would_save_more(seed):
    random_ = random.Random(seed)
    tables = [random_.choices([1, 2], k=random_.randrange(6)) for _ in range(6)]
    pairs_and_more = [set(c) for n in range(2, 7) for c in itertools.combinations(range(6), n)]

    groups = shared_prefixes(tables)

    best = max(saved_blocks(seqs, tables) for seqs in pairs_and_more)
    assert sum(group.saved_blocks for group in groups) >= best
    assert all(group.saved_blocks == saved_blocks(group.seqs, tables) for group in groups)
    members = [seq for group in groups for seq in group.seqs]
    assert len(members) == len(set(members))


def test_a_thousand_nested_prefixes_are_no_trouble():
    tables = [list(range(length)) for length in range(1000)]

    groups = shared_prefixes(tables)

    assert all(group.saved_blocks == saved_blocks(group.seqs, tables) for group in groups)


def saved_blocks(seqs, tables):
    columns = zip(*(tables[seq] for seq in seqs), strict=False)
    common = itertools.takewhile(lambda column: len(set(column)) == 1, columns)
    return (len(seqs) - 1) * len(list(common))


@pytest.mark.parametrize("seed", range(20))
def test_a_bucket_pads_no_more_than_a_product_is_worth(seed):
    random_ = random.Random(seed)
    lengths = [random_.choice([0, random_.randrange(1, 2000)]) for _ in range(60)]

    buckets = similar_lengths(lengths)

    members = sorted(seq for bucket in buckets for seq in bucket)
    assert members == [seq for seq, length in enumerate(lengths) if length]
    for bucket in buckets:
        longest = max(lengths[seq] for seq in bucket)
        assert sum(longest - lengths[seq] for seq in bucket) <= WORTH_A_PRODUCT


def test_equal_lengths_are_one_bucket():
    assert similar_lengths([7, 0, 7, 7]) == [[0, 2, 3]]


def test_a_shared_prefix_is_read_once_and_leaves_every_decode_a_tail():
    num_blocks, block_size = 64, 16  # 1024 tokens, all of them in both tables
    shared = torch.arange(num_blocks, dtype=torch.int32).expand(2, -1)
    metadata = AttentionMetadata(
        block_tables=shared,
        seq_lens=torch.full((2,), num_blocks * block_size, dtype=torch.int32),
        query_starts=torch.arange(3, dtype=torch.int32),
        num_decodes=2,
        max_query_len=1,
        max_seq_len=num_blocks * block_size,
    )

    plan = plan_decodes(metadata, block_size=block_size, kv_heads=1, window=None)

    (group,), (bucket,) = plan.groups, plan.buckets
    assert group.slots.tolist() == list(range(1008))
    assert bucket.heads.tolist() == [*range(1008, 1024)] * 2


def test_under_a_window_every_decode_reads_its_own_last_tokens():
    num_blocks, block_size, window = 64, 16, 700
    shared = torch.arange(num_blocks, dtype=torch.int32).expand(2, -1)
    metadata = AttentionMetadata(
        block_tables=shared,
        seq_lens=torch.tensor([1024, 30], dtype=torch.int32),
        query_starts=torch.arange(3, dtype=torch.int32),
        num_decodes=2,
        max_query_len=1,
        max_seq_len=num_blocks * block_size,
    )

    plan = plan_decodes(metadata, block_size=block_size, kv_heads=1, window=window)

    assert plan.groups == []
    longer, shorter = (bucket.heads.tolist() for bucket in plan.buckets)
    assert (longer, shorter) == ([*range(324, 1024)], [*range(30)])
