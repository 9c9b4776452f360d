"""Batches run while a random schedule of faults goes over the whole stack; then all is counted."""

import pytest

from tests.chaos import faults
from tests.chaos.batches import FaultClient, plain_texts
from tests.chaos.invariants import Checked, check_queue
from tests.chaos.meanwhile import meanwhile
from tests.chaos.posting import Poster
from tests.chaos.scale import SEEDS, full_or_short
from tests.chaos.schedule import schedule
from tests.fixtures.fault_stack import FaultStack

_ROWS = 400
_SECONDS = full_or_short(20, 8)  # of faults
_FIXED_SEEDS = (11, 23)


@pytest.mark.law("I1")
@pytest.mark.law("I2")
@pytest.mark.law("I3")
@pytest.mark.law("I4")
@pytest.mark.law("I5")
@pytest.mark.law("I6")
@pytest.mark.law("I7")
@pytest.mark.law("I8")
@pytest.mark.law("I9")
@pytest.mark.law("I10")
@pytest.mark.law("I11")
@pytest.mark.law("I12")
@pytest.mark.parametrize("seed", range(SEEDS) if SEEDS else _FIXED_SEEDS)
def test_whatever_dies_no_row_is_lost_and_none_is_answered_twice(
    stack: FaultStack, client: FaultClient, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = schedule(seed, seconds=_SECONDS)
    with capsys.disabled():
        print(f"\nseed {seed}", *steps, sep="\n  ")  # noqa: T201 - how to see it again
    texts = [plain_texts(_ROWS, seconds=0.1), plain_texts(_ROWS // 2, seconds=0.2)]
    batches = [client.submit_texts(rows) for rows in texts]

    poster = Poster(client)
    with meanwhile(poster.post_one, pause=0.2):
        faults.run(stack, steps)
        stack.wait_until_well()
    ended = [client.wait(batch) for batch in batches]

    checked = [Checked(stack, client, *pair) for pair in zip(ended, texts, strict=True)]
    for each in checked:
        each.check()
    poster.check()
    check_queue(stack)
    for each in checked:  # I10: what no row names is missed by nobody
        each.drop_garbage()
        each.check()
    checked[0].finalize_again()


def test_a_seed_names_one_schedule() -> None:
    assert schedule(7, seconds=60) == schedule(7, seconds=60)
    assert schedule(7, seconds=60) != schedule(8, seconds=60)
