"""Two examples that anybody can check by hand: slots that never idle, memory in small pieces."""

from tests.unit.engine.scheduling import World, make_seq

OUTPUTS = [5, 40, 8, 6, 35, 7, 9, 4]  # completion tokens of eight requests
SLOTS = 4


def test_eight_requests_in_four_slots_need_40_steps_where_static_batches_need_75():
    world = World(num_blocks=64, block_size=16, max_tokens=512, max_seqs=SLOTS)
    world.add(*[make_seq(i, [i % 3], length) for i, length in enumerate(OUTPUTS)])

    steps = world.run()

    static = sum(max(OUTPUTS[first : first + SLOTS]) for first in range(0, 8, SLOTS))
    assert (static, len(steps)) == (75, 40)


def test_eight_requests_take_960_slots_of_kv_where_reserving_takes_16384():
    world = World(num_blocks=64, block_size=16, max_tokens=1024, max_seqs=8)
    seqs = [make_seq(i, [i] * 100, length) for i, length in enumerate(OUTPUTS)]
    world.add(*seqs)
    held = {seq: 0 for seq in seqs}

    while world.scheduler.num_running or world.scheduler.num_waiting:
        for chunk in world.step()[0].chunks:
            held[chunk.seq] = max(held[chunk.seq], len(chunk.seq.block_table))

    paged = sum(held.values()) * 16
    assert (8 * 2048, paged) == (16_384, 960)
