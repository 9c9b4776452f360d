"""Prefixes are kept for those who are still to come, and no longer."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.expectations import Expectations
from engine.prefix_tree import PrefixTree
from tests.unit.engine.scheduling import VOCAB_SIZE, World, make_seq

PREFIX = [1] * 8  # two blocks


def run_strangers(world, *, first_id, count=6):
    """Sequences that together need more than the pool has."""
    for i in range(count):
        world.add(make_seq(first_id + i, [2 if i % 2 else 0, *([i % 3] * 11)], 4))
        world.run()


def cached_when_it_comes(world, seq_id):
    seq = make_seq(seq_id, [*PREFIX, 2, 0], 2)
    world.add(seq)
    world.run()
    return seq.num_cached_prompt_tokens


@pytest.mark.parametrize(("expected", "cached"), [(1, 8), (0, 0)])
def test_a_prefix_outlives_strangers_exactly_if_more_is_expected(expected, cached):
    world = World(num_blocks=8, block_size=4)
    world.add(make_seq(0, [*PREFIX, 0]))
    world.expect(PREFIX, expected)
    world.run()

    run_strangers(world, first_id=10)

    assert cached_when_it_comes(world, 100) == cached


def test_the_last_that_was_expected_uses_the_prefix_up():
    world = World(num_blocks=8, block_size=4)
    world.add(make_seq(0, [*PREFIX, 0]))
    world.expect(PREFIX, 2)
    world.run()
    found = []

    for first_id in (10, 20, 30):
        run_strangers(world, first_id=first_id)
        found.append(cached_when_it_comes(world, first_id + 9))

    assert found == [8, 8, 0]


def test_a_later_word_on_a_prefix_replaces_the_earlier():
    world = World(num_blocks=8, block_size=4)
    world.add(make_seq(0, [*PREFIX, 0]))
    world.run()
    world.expect(PREFIX, 5)
    world.expect(PREFIX, 0)

    run_strangers(world, first_id=10)

    assert cached_when_it_comes(world, 100) == 0


def test_what_is_expected_promises_no_room():
    world = World(num_blocks=8, block_size=4)

    world.expect(PREFIX, 100)

    assert world.scheduler.room == 8 * 4


def test_a_sequence_that_needs_the_whole_pool_runs_in_spite_of_what_is_expected():
    world = World(num_blocks=8, block_size=4)
    world.add(make_seq(0, [*PREFIX, 0]))
    world.expect(PREFIX, 5)
    world.run()
    big = make_seq(1, [2] * 28, 4)
    world.add(big)

    world.run()

    assert big.num_output_tokens == 4


def test_an_expectation_is_forgotten_with_the_block_that_others_needed():
    world = World(num_blocks=8, block_size=4)
    world.add(make_seq(0, [*PREFIX, 0]))
    world.expect(PREFIX, 5)
    world.run()
    world.add(make_seq(1, [2] * 28, 4))  # all blocks
    world.run()
    recomputed = cached_when_it_comes(world, 2)

    run_strangers(world, first_id=10)

    assert [recomputed, cached_when_it_comes(world, 100)] == [0, 0]


def test_of_two_expected_prefixes_the_one_that_was_used_longer_ago_goes_first():
    world = World(num_blocks=8, block_size=4)
    other = [0] * 8
    for seq_id, prefix in enumerate([PREFIX, other, PREFIX]):
        world.expect(prefix, 5)
        world.add(make_seq(seq_id, [*prefix, 2]))
        world.run()

    world.add(make_seq(10, [2] * 20, 4))  # two blocks are left
    world.run()

    assert cached_when_it_comes(world, 100) == 8


tokens = st.integers(0, VOCAB_SIZE - 1)
prefixes = st.lists(tokens, min_size=4, max_size=16)
strangers = st.lists(st.tuples(st.lists(tokens, min_size=1, max_size=20), st.integers(1, 8)))


def steps_for_strangers(stale, others, *, is_told):
    """Steps for the requests of another tenant, after those that begin with `stale` have gone."""
    world = World(num_blocks=24, block_size=4, max_tokens=64, max_seqs=12)
    for seq_id, prefix in enumerate(stale):
        world.add(make_seq(seq_id, [*prefix, 0], 2))
        if is_told:
            world.expect(prefix, 100)
    world.run()
    for seq_id, (prompt, max_tokens) in enumerate(others, start=1_000):
        world.add(make_seq(seq_id, prompt, max_tokens, salt="another tenant"))
    return len(world.run())


@settings(max_examples=100, deadline=None)
@example(  # what was expected in vain once left them room for one at a time
    stale=[[i % 3, i // 3 % 3, 0, 0, *[1] * 12] for i in range(9)],
    others=[([i % 3, i // 3 % 3, i // 9 % 3, *[2] * 17], 8) for i in range(20)],
)
@given(stale=st.lists(prefixes, max_size=12), others=strangers)
def test_expectations_that_never_come_true_cost_unrelated_requests_no_step(stale, others):
    plain = steps_for_strangers(stale, others, is_told=False)

    assert steps_for_strangers(stale, others, is_told=True) == plain


def test_expectations_that_nobody_takes_back_are_bounded():
    tree = PrefixTree(block_size=2, model=b"model")
    expectations = Expectations(tree, capacity=3)
    paths = [tree.enter([token, token], salt="") for token in range(10)]

    for path in paths:
        expectations.expect(path, 7)

    assert [path[0].pins for path in paths] == [0] * 7 + [1] * 3


def test_a_prefix_shorter_than_a_block_is_not_worth_a_word():
    expectations = Expectations(PrefixTree(block_size=4, model=b"model"))

    expectations.expect([], 5)

    assert len(expectations) == 0
