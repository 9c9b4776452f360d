"""Prefixes are kept for those who are still to come, and no longer."""

import pytest

from engine.expectations import Expectations
from engine.prefix_tree import PrefixTree
from tests.unit.engine.scheduling import World, make_seq

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
