"""Laws of scheduler, pool and tree together, checked against the plainest thing that could be."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.forecast import LengthForecast
from tests.unit.engine.scheduling import (
    VOCAB_SIZE,
    OptimisticForecast,
    World,
    generate_alone,
    make_seq,
)

tokens = st.integers(0, VOCAB_SIZE - 1)
# Some come often, so that whole prompts are shared, their last, partial blocks too.
FREQUENT = [[0, 1, 2], [0, 1, 2, 0, 1, 2, 1], [1] * 11]
prompts = st.one_of(st.lists(tokens, min_size=1, max_size=14), st.sampled_from(FREQUENT))
sizes = st.fixed_dictionaries(
    {
        "block_size": st.sampled_from([1, 2, 3, 4]),
        "max_seqs": st.integers(1, 6),
        "max_tokens": st.integers(6, 24),
        "window": st.sampled_from([None, None, 1, 3, 8]),
    }
)
arrivals = st.lists(
    st.tuples(
        prompts,
        st.integers(1, 16),  # max_tokens
        st.sampled_from(["", "tenant"]),
        st.integers(0, 2),  # priority
        st.sampled_from(["finish", "finish", "stop early", "abort"]),
        st.sampled_from([0, 0, 0, 1, 4]),  # steps before the next arrival, or before the abort
    ),
    min_size=4,
    max_size=10,
)


@settings(max_examples=150, deadline=None)
@given(
    world_sizes=sizes, requests=arrivals, spare_blocks=st.integers(0, 12), surprised=st.booleans()
)
def test_every_sequence_ends_as_if_alone_and_nothing_leaks(
    world_sizes, requests, spare_blocks, surprised
):
    longest = max(len(prompt) + max_tokens for prompt, max_tokens, *_ in requests)
    num_blocks = -(-longest // world_sizes["block_size"]) + spare_blocks
    forecast = OptimisticForecast() if surprised else LengthForecast()
    world = World(num_blocks=num_blocks, forecast=forecast, **world_sizes)
    expected = {}
    doomed = {}
    for seq_id, request in enumerate(requests, start=100):
        prompt, max_tokens, salt, priority, fate, delay = request
        seq = make_seq(seq_id, prompt, max_tokens, salt=salt, priority=priority)
        world.add(seq)
        world.stops[seq] = 1 + max_tokens // 2 if fate == "stop early" else max_tokens
        if fate == "abort":
            doomed[seq] = delay
        else:
            expected[seq] = generate_alone(prompt, world.stops[seq], salt)
        step_and_abort(world, doomed, steps=delay)

    step_and_abort(world, doomed, steps=5)
    world.run()

    assert {seq: seq.token_ids for seq in expected} == expected
    assert world.pool.num_held == 0
    assert world.tree.num_live == 0
    assert world.scheduler.room == world.pool.num_blocks * world.pool.block_size


def step_and_abort(world, doomed, *, steps):
    for _ in range(steps):
        world.step()
        for seq in list(doomed):
            doomed[seq] -= 1
            if doomed[seq] < 0:
                del doomed[seq]
                world.abort(seq)


batches = st.lists(
    st.tuples(prompts, st.integers(1, 6), st.sampled_from([None, None, None, 0, 1, 2, 5])),
    min_size=2,
    max_size=16,
)


@settings(max_examples=300, deadline=None)
@example(  # the second of equal completions found the first one's idle block, and kept both
    batch=[([0, 1, 2, 0, 1, 2, 1], n, None) for n in (1, 2, 3)] + [([0, 1, 0, 1], 1, None)] * 2,
    world_sizes={"block_size": 4, "max_seqs": 3, "max_tokens": 6},
    spare_blocks=1,
)
@given(batch=batches, world_sizes=sizes, spare_blocks=st.integers(0, 8))
def test_no_block_of_the_tree_is_prefilled_twice_in_a_tight_pool_with_cancellations(
    batch, world_sizes, spare_blocks
):
    longest = max(len(prompt) + max_tokens for prompt, max_tokens, _ in batch)
    num_blocks = -(-longest // world_sizes["block_size"]) + spare_blocks
    world = World(num_blocks=num_blocks, **world_sizes)
    seqs = [make_seq(i, prompt, max_tokens) for i, (prompt, max_tokens, _) in enumerate(batch)]
    world.add(*seqs)
    doomed = {seq: after for seq, (*_, after) in zip(seqs, batch, strict=True) if after is not None}

    step_and_abort(world, doomed, steps=6)
    world.run()

    assert max(world.prompt_blocks.values(), default=1) == 1


@settings(max_examples=150, deadline=None)
@given(requests=arrivals, world_sizes=sizes, spare_blocks=st.integers(0, 12))
def test_nobody_is_preempted_while_every_completion_is_as_long_as_forecast(
    requests, world_sizes, spare_blocks
):
    longest = max(len(prompt) + max_tokens for prompt, max_tokens, *_ in requests)
    num_blocks = -(-longest // world_sizes["block_size"]) + spare_blocks
    world = World(num_blocks=num_blocks, **world_sizes)
    batches = []
    for seq_id, (prompt, max_tokens, salt, priority, _, delay) in enumerate(requests):
        world.add(make_seq(seq_id, prompt, max_tokens, salt=salt, priority=priority))
        batches += [world.step()[0] for _ in range(delay)]

    batches += world.run()

    assert not any(batch.preempted for batch in batches)


@settings(max_examples=150, deadline=None)
@given(st.lists(prompts, min_size=1, max_size=20), st.sampled_from([1, 2, 4]), st.integers(8, 64))
def test_prefill_computes_each_block_of_the_tree_once(all_prompts, block_size, max_tokens):
    world = World(num_blocks=400, block_size=block_size, max_tokens=max_tokens, max_seqs=8)
    world.add(*[make_seq(i, prompt, 1) for i, prompt in enumerate(all_prompts)])

    world.run()

    ends = range(block_size, 15, block_size)
    blocks = {tuple(p[:end]) for p in all_prompts for end in ends if end <= len(p)}
    tails = sum(len(prompt) % block_size for prompt in {*map(tuple, all_prompts)})
    unique = len(blocks) * block_size + tails
    # A prompt that is computed whole computes its last token again, for its logits; if nobody who
    # had the same holds its last, partial block any more, that block.
    again = sum(max(1, len(prompt) % block_size) for prompt in all_prompts)
    assert unique <= world.prefill_tokens <= unique + again
