"""Models whose every layer sees a window keep no block that lies before it."""

from engine.forecast import LengthForecast
from engine.sliding_window import SlidingWindow
from tests.unit.engine.scheduling import OptimisticForecast, World, generate_alone, make_seq

PREFIX = [0, 1, 2, 1] * 4


def make_world(num_blocks: int, *, max_tokens: int = 16, forecast: LengthForecast | None = None):
    """Blocks of four tokens, and a window of eight."""
    return World(
        num_blocks=num_blocks, block_size=4, max_tokens=max_tokens, forecast=forecast, window=8
    )


def test_a_sequence_holds_what_its_next_token_sees_and_gives_the_rest_back():
    world = make_world(16)
    seq = make_seq(0, [0, 1, 2], 50)
    world.add(seq)
    held = []

    while world.scheduler.num_running or world.scheduler.num_waiting:
        world.step()
        held.append(len(seq.held_blocks))

    assert seq.token_ids == generate_alone([0, 1, 2], 50)
    assert max(held) == 3
    assert len(world.tree.idle_blocks) <= 13


def test_sequences_run_together_whose_ends_fit_though_their_whole_lengths_do_not():
    world = make_world(14)
    seqs = [make_seq(i, [i % 3, i], 50) for i in range(4)]  # 13 blocks each, from first to last
    world.add(*seqs)

    batches = world.run()

    assert [len(batch.chunks) for batch in batches[:50]] == [4] * 50
    assert not any(batch.preempted for batch in batches)


def test_no_more_is_promised_to_a_sequence_than_it_will_hold_at_once():
    world = make_world(32)

    world.add(make_seq(0, [0, 1, 2], 100))

    assert world.scheduler.room == (32 - 4) * 4  # three tokens at once, and seven before them
    world.run()
    assert world.scheduler.room == 32 * 4


def test_who_goes_on_behind_a_prefix_needs_only_its_end():
    world = make_world(7)
    world.add(make_seq(0, [*PREFIX, 0], 1))
    world.run()
    world.add(make_seq(1, [2, 2, 2] * 6, 1))  # takes the blocks that are worth least
    world.run()
    resident = [node.block is not None for node in world.tree.enter(PREFIX, salt="")]
    late = make_seq(2, [*PREFIX, 1], 3)

    world.add(late)
    world.run()

    assert resident == [False, False, True, True]
    assert late.num_cached_prompt_tokens == len(PREFIX)
    assert late.token_ids == generate_alone([*PREFIX, 1], 3)


def test_who_is_preempted_behind_its_window_begins_again_with_its_whole_path():
    world = make_world(9, max_tokens=24, forecast=OptimisticForecast())
    seqs = [make_seq(i, [i, 2, i], 30) for i in range(4)]
    world.add(*seqs)

    batches = world.run()

    preempted = [seq for batch in batches for seq in batch.preempted]
    assert any(len(seq.token_ids) > 12 for seq in preempted)
    assert [seq.token_ids for seq in seqs] == [generate_alone([i, 2, i], 30) for i in range(4)]
    assert world.tree.num_live == 0


def test_a_token_sees_itself_and_as_many_before_it_as_the_window_has_besides():
    window = SlidingWindow(tokens=9, max_at_once=4, block_size=4)

    first = [window.first_needed(position) for position in (0, 8, 11, 12, 16)]

    assert first == [0, 0, 0, 1, 2]
