from itertools import groupby

import pytest

from engine.sequence import State
from tests.unit.engine.scheduling import (
    OptimisticForecast,
    World,
    generate_alone,
    make_seq,
    shape,
    teach_short_outputs,
)


def test_a_long_prompt_is_prefilled_in_chunks_beside_a_decode():
    world = World(max_tokens=8)
    world.add(make_seq(0, [1] * 4), make_seq(1, [2] * 10))

    steps = [shape(world.step()[0]) for _ in range(3)]

    assert steps == [
        [(0, 4), (1, 4)],  # sequence 0 whole, sequence 1 takes what is left of the budget
        [(0, 1), (1, 6)],  # sequence 0 decodes, sequence 1 pays off the rest
        [(0, 1), (1, 1)],
    ]


def test_a_long_prefill_stops_nobodys_decode():
    world = World(num_blocks=32, max_tokens=8)
    long, short = make_seq(0, [1] * 40), make_seq(1, [2] * 2)
    world.add(short)
    world.step()
    world.add(long)

    batches = [world.step()[0] for _ in range(3)]

    assert [shape(batch) for batch in batches] == [[(1, 1), (0, 7)]] * 3


def test_a_shared_prefix_is_computed_by_one_and_awaited_by_the_others():
    world = World(num_blocks=32, max_tokens=64, max_seqs=8)
    prefix = [1] * 8
    world.add(*[make_seq(i, [*prefix, 2 + i, 2 + i]) for i in range(3)])

    steps = [shape(world.step()[0]) for _ in range(2)]

    assert steps == [[(0, 10)], [(0, 1), (1, 2), (2, 2)]]


def test_who_shares_nothing_does_not_wait_for_a_shared_prefix():
    world = World(num_blocks=32, max_tokens=64, max_seqs=8)
    world.add(make_seq(0, [1] * 9), make_seq(1, [1] * 9), make_seq(2, [2] * 5))

    batch, _ = world.step()

    assert sorted(shape(batch)) == [(0, 9), (2, 5)]


def test_a_step_looks_at_few_of_the_many_who_wait_for_one_prefix():
    world = World(num_blocks=32, max_tokens=64, max_seqs=4)
    seqs = [make_seq(i, [1] * 9) for i in range(1000)]
    world.add(*seqs)

    world.scheduler.step()

    assert sum(seq.state is State.PARKED for seq in seqs) == 3


def test_the_next_in_line_takes_over_when_the_owner_of_a_prefix_is_aborted():
    world = World(num_blocks=32, max_tokens=4, max_seqs=4)
    owner, heir = make_seq(0, [1] * 9), make_seq(1, [1] * 9)
    world.add(owner, heir)
    world.step()

    world.abort(owner)
    batches = world.run()

    assert shape(batches[0]) == [(1, 4)]  # the owner's first block is there, the rest is not
    assert batches[0].chunks[0].start == 4


def test_a_prompt_that_is_cached_whole_computes_only_its_last_token():
    world = World(num_blocks=32, max_tokens=64)
    prompt = [1] * 8
    world.add(make_seq(0, prompt))
    world.run()
    world.add(make_seq(1, prompt))

    batch, _ = world.step()

    assert shape(batch) == [(1, 1)]


def test_an_ended_sequences_blocks_are_reused_by_the_same_prefix():
    world = World(num_blocks=32, max_tokens=64)
    world.add(make_seq(0, [1] * 10))
    world.run()
    again = make_seq(1, [1] * 10)
    world.add(again)

    world.step()

    assert again.num_cached_prompt_tokens == 8


def test_another_salt_reuses_nothing():
    world = World(num_blocks=32, max_tokens=64)
    world.add(make_seq(0, [1] * 10, salt="a"))
    world.run()
    other = make_seq(1, [1] * 10, salt="b")
    world.add(other)

    world.step()

    assert other.num_cached_prompt_tokens == 0


def test_a_dry_pool_preempts_the_youngest_and_keeps_its_tokens():
    world = World(num_blocks=4, block_size=4, max_tokens=64)
    teach_short_outputs(world)
    old, young = make_seq(100, [1] * 7, 8), make_seq(101, [2] * 7, 8)
    world.add(old, young)

    batches = world.run()

    preempted = [seq for batch in batches for seq in batch.preempted]
    assert preempted == [young]
    assert young.num_output_tokens == 8


def test_a_step_that_preempts_admits_nobody():
    world = World(num_blocks=4, block_size=4, max_tokens=64, max_seqs=4)
    teach_short_outputs(world)
    world.add(make_seq(100, [1] * 7, 8), make_seq(101, [2] * 7, 8), make_seq(102, [0], 1))

    batches = world.run()

    [dry] = [batch for batch in batches if batch.preempted]
    assert not dry.started


def test_after_a_preemption_nobody_is_admitted_until_there_is_room_to_spare():
    world = World(num_blocks=16, block_size=4, max_tokens=64, forecast=OptimisticForecast())
    long, brief, victim = (
        make_seq(i, [i] * n, m) for i, n, m in [(0, 31, 30), (1, 7, 4), (2, 19, 9)]
    )
    world.add(long, brief, victim)

    batches = world.run()

    # When `brief` ends there are seven blocks for the six of `victim`, which `long` will soon want.
    dry = next(index for index, batch in enumerate(batches) if batch.preempted)
    companies = [[chunk.seq.seq_id for chunk in batch.chunks] for batch in batches[dry:]]
    assert [ids for ids, _ in groupby(companies)] == [[0, 1], [0], [2]]
    assert sum(len(batch.preempted) for batch in batches) == 1


def test_the_last_to_wait_run_longest_first():
    world = World(num_blocks=64, max_tokens=64, max_seqs=3)
    world.add(*[make_seq(i, [i], length) for i, length in enumerate([2, 9, 4])])
    world.scheduler.step()
    world.add(*[make_seq(i, [i], length) for i, length in enumerate([2, 9, 4], start=3)])

    order = [seq.seq_id for batch in world.run() for seq in batch.started]

    assert order == [4, 5, 3]


def test_before_the_tail_those_with_one_prefix_run_one_after_the_other():
    world = World(num_blocks=64, block_size=4, max_tokens=64, max_seqs=1)
    prefixes = [[i] * 4 for i in (0, 1, 2)]
    seqs = [make_seq(i, [*prefixes[i % 3], i], 1) for i in range(9)]
    world.add(*seqs)

    order = [seq.seq_id % 3 for batch in world.run() for seq in batch.started]

    assert order == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_smaller_step_preempts_the_youngest_and_all_end_as_if_alone():
    world = World(num_blocks=64, max_tokens=8, max_seqs=4)
    seqs = [make_seq(i, [i % 3] * 3, 6) for i in range(4)]
    world.add(*seqs)
    world.step()
    world.step()

    shrunk = [world.scheduler.shrink() for _ in range(4)]
    world.max_tokens, world.running = 1, {seqs[0]}
    world.run()

    assert shrunk == [True, True, True, False]
    assert [seq.token_ids for seq in seqs] == [generate_alone([i % 3] * 3, 6) for i in range(4)]


def test_a_sequence_is_admitted_only_when_its_forecast_fits():
    world = World(num_blocks=5, block_size=4, max_tokens=64)
    world.add(make_seq(0, [1] * 4, 8), make_seq(1, [2] * 4, 8))  # three blocks each, at their ends

    batches = world.run()

    assert shape(batches[0]) == [(0, 4)]
    assert not any(batch.preempted for batch in batches)


def test_higher_priority_runs_first_and_arrival_decides_among_equals():
    world = World(num_blocks=32, max_tokens=64, max_seqs=1)
    world.add(make_seq(0, [0], 1), make_seq(1, [1], 1, priority=5), make_seq(2, [2], 1, priority=5))

    order = [chunk.seq.seq_id for batch in world.run() for chunk in batch.chunks]

    assert order == [1, 2, 0]


def test_nobody_overtakes_a_sequence_that_waits_for_blocks():
    world = World(num_blocks=4, block_size=4, max_tokens=64)
    world.add(make_seq(0, [0] * 8, 4), make_seq(1, [1] * 12, 4), make_seq(2, [2], 1))

    batch, _ = world.step()

    assert shape(batch) == [(0, 8)]


@pytest.mark.parametrize("when", ["waiting", "parked", "running"])
def test_an_aborted_sequence_is_gone_and_holds_nothing(when):
    world = World(num_blocks=32, max_tokens=64)
    first, second = make_seq(0, [1] * 9), make_seq(1, [1] * 9)
    world.add(first, second)
    victim = {"waiting": first, "parked": second, "running": first}[when]
    if when != "waiting":
        world.step()

    world.abort(victim)

    steps = world.run()
    assert victim not in {chunk.seq for batch in steps for chunk in batch.chunks}
    assert world.pool.num_held == 0


def test_room_counts_a_shared_prefix_once():
    world = World(num_blocks=32, block_size=4)
    prefix = [1] * 8
    world.add(make_seq(0, [*prefix, 2], 3))  # two blocks of prefix, one of its own
    before = world.scheduler.room

    world.add(make_seq(1, [*prefix, 3], 3))

    assert before == (32 - 3) * 4
    assert world.scheduler.room == (32 - 4) * 4


def test_room_is_whole_again_when_everything_has_ended():
    world = World(num_blocks=32, block_size=4)
    world.add(*[make_seq(i, [i % 3] * 9, 9) for i in range(10)])

    assert world.scheduler.room < 0
    world.run()
    assert world.scheduler.room == 32 * 4
