"""The order in which those who wait will run."""

from hypothesis import given
from hypothesis import strategies as st

from engine.depth_first import DepthFirst
from engine.prefix_tree import PrefixTree

prompts = st.lists(st.integers(0, 1), max_size=9)


def placed(all_prompts, *, patience=1000, block_size=1):
    tree = PrefixTree(block_size=block_size, model=b"model")
    order = DepthFirst(patience)
    return tree, order, [order.arrive(tree.enter(prompt, salt="")) for prompt in all_prompts]


@given(st.lists(prompts, max_size=30), st.integers(1, 3))
def test_everybody_below_a_node_runs_before_anybody_else(all_prompts, block_size):
    _, _, places = placed(all_prompts, block_size=block_size)

    ranked = [prompt for _, prompt in sorted(zip(places, all_prompts, strict=True))]

    for end in range(0, 9, block_size):
        prefixes = [tuple(prompt[:end]) if len(prompt) >= end else None for prompt in ranked]
        runs = [
            p for p, before in zip(prefixes, [object(), *prefixes], strict=False) if p != before
        ]
        found = [prefix for prefix in runs if prefix is not None]
        assert len(found) == len(set(found)), f"a subtree is left and entered again: {ranked}"


@given(st.lists(prompts, max_size=30))
def test_no_two_sequences_have_one_place(all_prompts):
    _, _, places = placed(all_prompts)

    assert len(set(places)) == len(places)


def test_among_strangers_arrival_decides():
    _, _, places = placed([[3], [1], [2], []])

    assert places == sorted(places)


def test_who_comes_to_an_old_node_overtakes_until_its_birthday_lapses():
    tree, order, [first, stranger] = placed([[1, 1], [2, 2]], patience=2)

    soon = order.arrive(tree.enter([1, 3], salt=""))
    for _ in range(4):  # twice the patience
        order.start()
    late = order.arrive(tree.enter([1, 4], salt=""))

    assert sorted([first, soon, stranger, late]) == [first, soon, stranger, late]


def test_those_who_come_late_to_an_old_node_still_stand_together():
    tree, order, _ = placed([[1, 1]], patience=1)
    for _ in range(2):
        order.start()

    one, other, two = (order.arrive(tree.enter([n, n + 5], salt="")) for n in (1, 2, 1))

    assert sorted([one, other, two]) == [one, two, other]
