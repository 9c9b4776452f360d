import pytest

from engine.prefix_tree import PrefixTree


@pytest.fixture
def tree() -> PrefixTree:
    return PrefixTree(block_size=2, model=b"model")


def make_resident(tree: PrefixTree, path, blocks) -> None:
    for node, block in zip(path, blocks, strict=True):
        tree.fill(node, block)


def evicted(tree: PrefixTree, count: int) -> list[int]:
    return [tree.evict()[0] for _ in range(count)]


def test_paths_share_nodes_exactly_as_long_as_their_tokens_agree(tree):
    first = tree.enter([1, 2, 3, 4, 5, 6], salt="")
    second = tree.enter([1, 2, 3, 4, 9, 9, 9], salt="")

    assert first[:2] == second[:2]
    assert first[2] is not second[2]
    assert tree.num_live == 4


def test_the_last_partial_block_has_no_node(tree):
    assert len(tree.enter([1, 2, 3], salt="")) == 1


def test_another_salt_shares_nothing(tree):
    [mine] = tree.enter([1, 2], salt="a")
    [theirs] = tree.enter([1, 2], salt="b")

    assert mine is not theirs


def test_contents_with_one_hash_share_nothing():
    tree = PrefixTree(block_size=2, model=b"model", child_key=lambda *_: b"the same for all")
    [first] = tree.enter([1, 2], salt="")
    [second] = tree.enter([3, 4], salt="")

    tree.leave([second])

    assert first is not second
    assert tree.num_live == 1


def test_only_the_prefix_without_a_gap_is_resident(tree):
    path = tree.enter([1, 2, 3, 4, 5, 6], salt="")
    tree.fill(path[0], 10)
    tree.fill(path[2], 12)

    assert tree.num_resident(path) == 1


def test_a_block_that_somebody_waits_for_is_evicted_last(tree):
    wanted = tree.enter([1, 2], salt="")
    spare = tree.enter([3, 4], salt="")
    make_resident(tree, wanted + spare, [10, 11])
    tree.retire(10)
    tree.leave(spare)
    tree.retire(11)

    assert evicted(tree, 2) == [11, 10]


def test_a_block_that_is_only_expected_goes_after_the_spare_and_before_those_waited_for(tree):
    wanted, expected, spare = (tree.enter([token, token], salt="") for token in range(3))
    make_resident(tree, wanted + expected + spare, [10, 11, 12])
    tree.pin(expected)
    for path, block in ((expected, 11), (spare, 12)):
        tree.leave(path)
        tree.retire(block)
    tree.retire(10)

    assert evicted(tree, 3) == [12, 11, 10]


def test_children_are_evicted_before_their_parents(tree):
    path = tree.enter([1, 2, 3, 4, 5, 6], salt="")
    make_resident(tree, path, [10, 11, 12])
    for block in (12, 11, 10):
        tree.retire(block)
    tree.leave(path)

    assert evicted(tree, 3) == [12, 11, 10]


def test_a_parent_outlives_the_child_that_a_later_sequence_shares(tree):
    path = tree.enter([1, 2, 3, 4], salt="")
    make_resident(tree, path, [10, 11])
    tree.retire(11)
    tree.retire(10)
    tree.leave(path)
    tree.enter([1, 2, 5, 6], salt="")  # needs the parent
    tree.enter([1, 2, 3, 4], salt="")  # needs both

    assert evicted(tree, 2) == [11, 10]


def test_a_block_of_no_node_is_not_kept(tree):
    assert not tree.retire(10)


def test_an_evicted_node_can_be_computed_again_elsewhere(tree):
    path = tree.enter([1, 2], salt="")
    make_resident(tree, path, [10])
    tree.retire(10)
    tree.evict()

    tree.fill(path[0], 11)

    assert tree.revive(path) == [11]


def test_what_nobody_uses_and_no_block_holds_is_forgotten(tree):
    [before] = tree.enter([1, 2], salt="")
    tree.leave([before])

    [after] = tree.enter([1, 2], salt="")

    assert before is not after
    assert tree.num_live == 1


def test_a_block_that_is_held_takes_the_place_of_an_idle_one_of_equal_tokens(tree):
    path = tree.enter([1, 2], salt="")
    make_resident(tree, path, [10])
    tree.retire(10)

    twin = tree.fill(path[0], 11)

    assert twin == 10
    assert tree.idle_blocks == set()
    assert path[0].block == 11


def test_of_two_held_blocks_of_equal_tokens_the_first_stays(tree):
    path = tree.enter([1, 2], salt="")
    make_resident(tree, path, [10])

    assert tree.fill(path[0], 11) is None
    assert path[0].block == 10
