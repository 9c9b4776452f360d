from itertools import product

from engine.block_keys import child_key, pack, root_key


def test_everything_that_shapes_k_and_v_changes_the_key():
    roots = [root_key(model=m, salt=s) for m, s in product([b"m", b"n", b""], ["", "a", "b"])]

    keys = [child_key(root, pack(tokens)) for root, tokens in product(roots, [(1, 2), (2, 1)])]

    assert len(set(roots + keys)) == len(roots) + len(keys)


def test_fields_cannot_pass_for_each_other():
    pairs = [(b"ab", "c"), (b"a", "bc"), (b"", "abc"), (b"abc", "")]

    keys = {root_key(model=model, salt=salt) for model, salt in pairs}

    assert len(keys) == len(pairs)


def test_the_same_block_after_another_prefix_is_another_block():
    root = root_key(model=b"m", salt="")
    block = pack([7, 7])

    first, second = child_key(root, block), child_key(child_key(root, block), block)

    assert first != second
