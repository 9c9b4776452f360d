"""Times of leases that contradict each other are refused at the start."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from jobs.settings import LeaseSettings

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    "changed",
    [
        {"beat_interval": 15 * SECOND},  # no beat before the fence falls
        {"fence_after": 20 * SECOND},  # a worker that writes on when it may be taken for dead
        {"ttl": 12 * SECOND},
        {"sweep_interval": 4 * SECOND},  # a sweep that is late would look like an outage
    ],
)
def test_times_that_contradict_each_other_are_refused(changed: dict[str, timedelta]) -> None:
    with pytest.raises(ValidationError, match=r"must hold|at most"):
        LeaseSettings(**changed)


def test_the_times_as_shipped_notice_a_death_within_thirty_seconds() -> None:
    leases = LeaseSettings()

    assert leases.ttl + leases.beat_interval + leases.sweep_interval < 30 * SECOND
