"""Follows one batch through its states, and times every question that it asks on the way."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench.errors import OutputIncomplete

_LOOK_EVERY = 0.05  # seconds
_SILENCE = 300.0  # seconds without a change after which a batch counts as stuck
_ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(slots=True)
class Story:
    """When each status was first seen, in seconds after the batch was created.

    Seen from outside and so to 0.1 s, where the batch's own times are whole seconds.
    reads, lists: seconds of each GET of the batch, and of the list of batches
    """

    seen: dict[str, float] = field(default_factory=dict)
    reads: list[float] = field(default_factory=list)
    lists: list[float] = field(default_factory=list)

    def phases(self) -> dict[str, float]:
        """Seconds of planning, running and finalizing.

        A phase too short to be seen has ended when the next one was seen.
        """
        completed = self.seen["completed"]
        finalizing = self.seen.get("finalizing", completed)
        in_progress = self.seen.get("in_progress", finalizing)
        return {
            "plan": in_progress,
            "run": finalizing - in_progress,
            "finalize": completed - finalizing,
        }


def follow(
    client: httpx.Client, batch_id: str, *, tell: Callable[[str], None]
) -> tuple[dict[str, Any], Story]:
    """Return the batch once it has completed.  Raises OutputIncomplete if it ends otherwise."""
    story, started = Story(), time.perf_counter()
    state, changed = "", started
    while True:
        batch = _timed_get(client, f"/v1/batches/{batch_id}", story.reads)
        now = time.perf_counter()
        story.seen.setdefault(batch["status"], now - started)
        if batch["status"] in _ENDED:
            break
        if (seen := f"{batch['status']}, {batch['progress']:.0%}") != state:
            state, changed = seen, now
            tell(state)
        if now - changed > _SILENCE:
            raise OutputIncomplete(f"the batch stands still: {state}")
        _timed_get(client, "/v1/batches", story.lists)
        time.sleep(_LOOK_EVERY)
    if batch["status"] != "completed":
        raise OutputIncomplete(f"the batch is {batch['status']}: {batch['errors']}")
    return batch, story


def _timed_get(client: httpx.Client, path: str, into: list[float]) -> Any:
    started = time.perf_counter()
    answer = client.get(path).raise_for_status().json()
    into.append(time.perf_counter() - started)
    return answer
