import pytest

from engine.block_pool import BlockPool


def test_a_block_is_free_held_or_idle():
    pool = BlockPool(num_blocks=3, block_size=4)

    first, second = pool.take(2)
    became_idle = pool.release(first)

    assert became_idle
    assert (pool.num_free, pool.num_held) == (1, 1)
    pool.check_integrity(idle={first})
    pool.free(first)
    assert (pool.num_free, pool.references(second)) == (2, 1)


def test_a_shared_block_is_idle_only_after_its_last_holder():
    pool = BlockPool(num_blocks=1, block_size=4)
    [block] = pool.take(1)
    pool.retain(block)

    answers = [pool.release(block), pool.release(block)]

    assert answers == [False, True]
    assert pool.num_held == 0


def test_a_block_cannot_be_released_twice():
    pool = BlockPool(num_blocks=1, block_size=4)
    [block] = pool.take(1)
    pool.release(block)

    with pytest.raises(AssertionError, match="released twice"):
        pool.release(block)


def test_integrity_check_finds_a_leak():
    pool = BlockPool(num_blocks=2, block_size=4)
    [block] = pool.take(1)
    pool.release(block)  # idle, but nobody says that they keep it

    with pytest.raises(AssertionError, match="leaked"):
        pool.check_integrity(idle=set())


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (4, 1), (5, 2)])
def test_blocks_for_rounds_up(tokens, blocks):
    assert BlockPool(num_blocks=1, block_size=4).blocks_for(tokens) == blocks
