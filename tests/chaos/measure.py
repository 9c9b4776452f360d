"""What deaths cost, with the leases as they are shipped: `python -m tests.chaos.measure`.

Prints one JSON line.  Every figure is of two workers with the scripted engine, eight rows at a time
each, 50 ms a row; batches are checked before anything is told of them.
"""

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle

from openai.types import Batch

from tests.chaos.batches import FaultClient, plain_texts, some_are_done
from tests.chaos.invariants import Checked
from tests.fixtures.fault_stack import FaultStack, wait_for
from tests.fixtures.folders import open_folder

_SHIPPED = {
    "LEASES__BEAT_INTERVAL": "PT4S",
    "LEASES__TTL": "PT20S",
    "LEASES__FENCE_AFTER": "PT15S",
    "LEASES__SWEEP_INTERVAL": "PT3S",
}
_TEXTS = plain_texts(8000, seconds=0.05)
_DEATHS = 3
_KILL_EVERY = 5.0  # seconds


def main() -> None:
    with open_folder() as folder:
        stack = FaultStack(folder, settings=_SHIPPED)
        client = FaultClient(stack.facts)
        try:
            with client:
                _print(_measure(stack, client))
        finally:
            stack.stop()


def _measure(stack: FaultStack, client: FaultClient) -> dict[str, object]:
    killed = [_seconds_to_notice(stack, client, signal.SIGKILL) for _ in range(_DEATHS)]
    silent = [_seconds_to_notice(stack, client, signal.SIGSTOP) for _ in range(_DEATHS)]
    undisturbed, _ = _rate(stack, client, kill=lambda: None)
    kills = list[str]()
    victims = cycle(stack.names("worker"))

    def kill() -> None:
        kills.append(next(victims))
        stack.kill(kills[-1])

    disturbed, batch = _rate(stack, client, kill=kill)
    return {
        "notice_killed_s": killed,
        "notice_silent_s": silent,
        "rows_per_s": undisturbed,
        "rows_per_s_under_kills": disturbed,
        "kills": len(kills),
        "rows_recomputed_per_kill": round(_recomputed(stack, batch) / len(kills), 1),
    }


def _seconds_to_notice(stack: FaultStack, client: FaultClient, number: signal.Signals) -> float:
    """From a worker's death, or from its falling silent for good, to its shards being free."""
    batch = client.wait_for(client.submit_texts(_TEXTS), some_are_done)
    name = stack.names("worker")[0]
    held = (
        "SELECT count(*) FROM shards WHERE state = 'leased' AND owner IN"
        " (SELECT incarnation FROM workers WHERE pid = :pid)"
    )
    pid = stack.pid(name)
    wait_for(lambda: stack.column(held, pid=pid)[0])
    stack.signal(name, number)
    since = time.monotonic()
    wait_for(lambda: not stack.column(held, pid=pid)[0])
    took = time.monotonic() - since
    stack.kill(name)
    client.openai.batches.cancel(batch.id)
    client.wait(batch)
    stack.wait_until_well()
    return round(took, 2)


def _rate(
    stack: FaultStack, client: FaultClient, *, kill: Callable[[], None]
) -> tuple[float, Batch]:
    """Rows a second of a whole batch, with a `kill` every few seconds."""
    since = time.monotonic()
    batch, next_kill = client.submit_texts(_TEXTS), since + _KILL_EVERY
    while batch.status not in ("completed", "failed"):
        if time.monotonic() > next_kill:
            kill()
            next_kill += _KILL_EVERY
        time.sleep(0.1)
        batch = client.openai.batches.retrieve(batch.id)
    took = time.monotonic() - since
    Checked(stack, client, batch, _TEXTS).check()
    stack.wait_until_well()
    return round(len(_TEXTS) / took, 1), batch


def _recomputed(stack: FaultStack, batch: Batch) -> int:
    job = batch.id.removeprefix("batch_")
    runs = Counter(each.request_id for each in stack.ledger() if job in each.request_id)
    return sum(times - 1 for times in runs.values())


def _print(figures: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
