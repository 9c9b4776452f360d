"""What a client reads of a job's state, and the fields that bodies may have."""

from datetime import UTC, datetime, timedelta

import pytest

from api.schemas.batches import status_of
from api.schemas.sent import window
from jobs.models import Job, JobState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1h", timedelta(hours=1)),
        ("24h", timedelta(days=1)),
        ("7d", timedelta(days=7)),
        ("9999d", timedelta(days=9999)),
    ],
)
def test_a_window_is_hours_or_days(text: str, length: timedelta) -> None:
    assert window(text) == length


@pytest.mark.parametrize(
    "text", ["", "h", "24", "0h", "-1h", "1.5h", "24 h", "24h\n", "10000d", "٣h"]
)
def test_anything_else_is_no_window(text: str) -> None:
    with pytest.raises(ValueError, match="hours or days"):
        window(text)
