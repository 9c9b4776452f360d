"""What a client reads of a job's state."""

import pytest

from api.schemas.batches import status_of
from jobs.models import Job, JobState


@pytest.mark.parametrize(
    ("state", "ends_as", "seen"),
    [
        (JobState.QUEUED, None, "validating"),
        (JobState.VALIDATING, None, "validating"),
        (JobState.IN_PROGRESS, None, "in_progress"),
        (JobState.STOPPING, JobState.CANCELLED, "cancelling"),
        (JobState.STOPPING, JobState.EXPIRED, "finalizing"),
        (JobState.FINALIZING, None, "finalizing"),
        (JobState.FINALIZING, JobState.CANCELLED, "cancelling"),
        (JobState.FINALIZING, JobState.EXPIRED, "finalizing"),
        (JobState.COMPLETED, None, "completed"),
        (JobState.FAILED, None, "failed"),
        (JobState.CANCELLED, JobState.CANCELLED, "cancelled"),
        (JobState.EXPIRED, JobState.EXPIRED, "expired"),
    ],
)
def test_a_batchs_state_is_shown_in_openais_words(
    state: JobState, ends_as: JobState | None, seen: str
) -> None:
    assert status_of(Job(state=state, ends_as=ends_as)) == seen
