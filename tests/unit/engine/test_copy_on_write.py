"""Several completions of one prompt share all of its blocks until each has something to write."""

import pytest

from tests.unit.engine.scheduling import World, generate_alone, make_seq, shape

PROMPT = [1] * 4 + [2] * 3  # a block, and three tokens of the next


def test_choices_share_the_last_block_and_part_when_they_write():
    world = World(num_blocks=32, block_size=4, max_tokens=64)
    world.add(*[make_seq(i, PROMPT, 3) for i in range(3)])

    steps = [world.step()[0] for _ in range(3)]

    assert [shape(batch) for batch in steps] == [
        [(0, 7)],  # the first computes the prompt
        [(0, 1), (1, 1), (2, 1)],  # the others want the logits of its last token, no more
        [(0, 1), (1, 1), (2, 1)],
    ]
    assert [len(batch.copies) for batch in steps] == [0, 0, 2]


def test_until_they_write_choices_take_no_block_of_their_own():
    world = World(num_blocks=32, block_size=4, max_tokens=64, max_seqs=8)
    world.add(*[make_seq(i, PROMPT, 3) for i in range(8)])

    world.step()
    world.scheduler.step()

    assert world.pool.num_held == 2


@pytest.mark.parametrize(("tail", "copies"), [(2, 0), (3, 1)])
def test_the_last_to_hold_a_shared_block_keeps_it_unless_its_owner_filled_it(tail, copies):
    world = World(num_blocks=32, block_size=4, max_tokens=64)
    prompt = [1] * 4 + [2] * tail
    first, second = make_seq(0, prompt, 9), make_seq(1, prompt, 3)
    world.add(first, second)
    world.step()
    world.step()  # `first` writes the token behind its prompt

    world.abort(first)
    world.run()

    assert world.copies == copies
    assert second.token_ids == generate_alone(prompt, 3)


def test_another_takes_over_when_who_computes_the_last_block_is_aborted():
    world = World(num_blocks=32, block_size=4, max_tokens=5)
    first, second = make_seq(0, PROMPT, 3), make_seq(1, PROMPT, 3)
    world.add(first, second)
    world.step()

    world.abort(first)
    batches = world.run()

    assert shape(batches[0]) == [(1, 3)]
    assert second.token_ids == generate_alone(PROMPT, 3)


@pytest.mark.parametrize("other", [PROMPT[:-1], [*PROMPT, 0], [0, *PROMPT[1:]]])
def test_who_has_another_prompt_shares_no_partial_block(other):
    world = World(num_blocks=32, block_size=4, max_tokens=64)
    world.add(make_seq(0, PROMPT, 3), make_seq(1, other, 3))

    world.run()

    assert world.copies == 0
