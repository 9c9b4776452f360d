import pytest

from bench.batch_watch import Story


def test_phases_last_from_one_status_to_the_next():
    story = Story(seen={"validating": 0.0, "in_progress": 2.0, "finalizing": 5.0, "completed": 6.5})

    assert story.phases() == {"plan": 2.0, "run": 3.0, "finalize": 1.5}


@pytest.mark.parametrize(
    ("seen", "phases"),
    [
        ({"in_progress": 2.0, "completed": 6.5}, {"plan": 2.0, "run": 4.5, "finalize": 0.0}),
        ({"finalizing": 5.0, "completed": 6.5}, {"plan": 5.0, "run": 0.0, "finalize": 1.5}),
    ],
)
def test_a_status_that_was_never_seen_took_no_time(seen, phases):
    assert Story(seen={"validating": 0.0} | seen).phases() == phases
