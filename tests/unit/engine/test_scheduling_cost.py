"""What a step costs does not depend on how many wait.

Counted in calls, not in time: what Python does for a step is the same on every machine.
"""

import sys

import pytest

from tests.unit.engine.scheduling import World, make_seq

# Either way more than the pool has room for: while all fit, a step asks less.
FEW, MANY = 2_000, 100_000


class CallCount:
    """Counts every call, of Python and of C, that is made within."""

    def __enter__(self):
        self.calls = 0
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _count(self, frame, event, argument):
        self.calls += event in ("call", "c_call")


def waiting_world(num_waiting, *, shared):
    """Four run, `num_waiting` wait: for one prefix, or each for itself."""
    world = World(num_blocks=2000, block_size=4, max_tokens=64, max_seqs=4)
    head = [1] * 8 if shared else []
    for i in range(num_waiting):
        own = [i % 251, i // 251 % 251, i // 251**2]
        world.add(make_seq(i, [*head, *own, 1], 3))
    return world


def calls_of_steps(world, count=12):
    with CallCount() as counted:
        for _ in range(count):
            batch = world.scheduler.step()
            grown = world.scheduler.record(batch, [0] * sum(c.samples for c in batch.chunks))
            world.scheduler.finish([s for s in grown if s.num_output_tokens == s.max_tokens])
    return counted.calls


@pytest.mark.parametrize("shared", [False, True])
def test_steps_cost_the_same_with_a_hundred_thousand_waiting(shared):
    few = calls_of_steps(waiting_world(FEW, shared=shared))

    many = calls_of_steps(waiting_world(MANY, shared=shared))

    assert many == few


def test_an_abortion_costs_the_same_with_a_hundred_thousand_waiting():
    counts = []
    for num_waiting in (FEW, MANY):
        world = World(num_blocks=2000, block_size=4, max_tokens=64, max_seqs=4)
        seqs = [make_seq(i, [i % 251, i // 251], 3) for i in range(num_waiting)]
        world.add(*seqs)
        with CallCount() as counted:
            world.scheduler.abort(seqs[50])
        counts.append(counted.calls)

    assert counts[0] == counts[1]
