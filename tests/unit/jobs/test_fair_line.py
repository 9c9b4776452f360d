"""Sixty-four workers and the rules of the line, in simulated time: who waits for whom, how long."""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from jobs import fairness

WORKERS = 64


@dataclass(order=True, frozen=True)
class Shard:
    """As the claim orders them: interactive first, then by stamp, then by age."""

    bulk: bool
    stamp: float
    number: int
    tenant: str = field(compare=False)
    cost: int = field(compare=False)


class Line:
    """The queue of one model, by the functions that stamp real shards."""

    def __init__(self, **weights: float) -> None:
        self._queued = list[Shard]()
        self._last_finish = defaultdict[str, float](float)
        self._last_hastened = defaultdict[str, float](float)
        self._highest = 0.0
        self._weights = defaultdict(lambda: 1.0, weights)
        self._numbers = count()

    def queue(self, tenant: str, costs: Iterable[int]) -> None:
        costs, before = list(costs), 0
        start = fairness.place(
            now=self._now(), last_finish=self._last_finish[tenant], weight=self._weights[tenant]
        )
        self._last_finish[tenant] = start.after(sum(costs))
        self._highest = max(self._highest, start.after(sum(costs)))
        for cost in costs:
            self._push(Shard(True, start.after(before), next(self._numbers), tenant, cost))
            before += cost

    def hasten(self, tenant: str) -> None:
        """All that the tenant has queued is one job, whose deadline is in danger."""
        job = sorted(shard for shard in self._queued if shard.tenant == tenant)
        start, before = (
            fairness.urgent_place(
                now=self._now(),
                last_hastened=self._last_hastened[tenant],
                weight=self._weights[tenant],
            ),
            0,
        )
        self._queued = [shard for shard in self._queued if shard.tenant != tenant]
        heapq.heapify(self._queued)
        for shard in job:
            stamp = min(shard.stamp, start.after(before))
            self._push(replace(shard, stamp=stamp))
            before += shard.cost
        self._last_hastened[tenant] = start.after(before)

    def queue_interactive(self, tenant: str, at: float, cost: int) -> None:
        self._push(Shard(False, at, next(self._numbers), tenant, cost))

    def _push(self, shard: Shard) -> None:
        heapq.heappush(self._queued, shard)

    def _now(self) -> float:
        bulk = [shard.stamp for shard in self._queued if shard.bulk]
        return min(bulk, default=self._highest)

    def claim(self) -> Shard | None:
        return heapq.heappop(self._queued) if self._queued else None


class Fleet:
    """Workers that take a shard each and run it for as long as it costs."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._busy = list[tuple[float, int, Shard]]()  # by when they end
        self._numbers = count()
        self.time = 0.0
        self.begun = list[Shard]()
        self.served = Counter[str]()  # cost, by tenant

    def run_until(self, end: float) -> None:
        self._fill()
        while self._busy and self._busy[0][0] <= end:
            self.time, _, shard = heapq.heappop(self._busy)
            self.served[shard.tenant] += shard.cost
            self._fill()
        self.time = end

    def _fill(self) -> None:
        while len(self._busy) < WORKERS and (shard := self._line.claim()) is not None:
            self.begun.append(shard)
            heapq.heappush(self._busy, (self.time + shard.cost, next(self._numbers), shard))

    def begun_by(self, tenant: str) -> int:
        return sum(shard.tenant == tenant for shard in self.begun)


@pytest.mark.parametrize("moment", [0, 1, 777, 5_000, 12_345])
def test_a_million_rows_of_one_delay_anothers_ten_by_a_shard_a_worker_at_most(moment: int) -> None:
    line = Line()
    fleet = Fleet(line)
    line.queue("large", [64] * (1_000_000 // 64))
    fleet.run_until(moment)
    before = fleet.begun_by("large")

    line.queue("small", [10])
    fleet.run_until(moment + 2 * 64)

    until_small = [shard.tenant for shard in fleet.begun[before:]].index("small")
    assert until_small <= WORKERS


def test_ten_shards_of_one_row_wait_for_no_more_than_one_that_is_ten_times_their_size() -> None:
    line = Line()
    fleet = Fleet(line)
    line.queue("large", [64] * 10_000)
    fleet.run_until(1_000)
    before = len(fleet.begun)

    line.queue("small", [1] * 10)
    fleet.run_until(1_000 + 2 * 64)

    order = [shard.tenant for shard in fleet.begun[before:]]
    last_small = max(place for place, tenant in enumerate(order) if tenant == "small")
    assert last_small - 10 < WORKERS


def test_interactive_work_goes_before_all_bulk() -> None:
    line = Line()
    fleet = Fleet(line)
    line.queue("large", [64] * 10_000)
    fleet.run_until(1_000)
    before = len(fleet.begun)

    for n in range(20):
        line.queue_interactive("someone", 1_000.0 + n, 5)
    fleet.run_until(1_000 + 64)

    assert [shard.tenant for shard in fleet.begun[before:]][:20] == ["someone"] * 20


@pytest.mark.parametrize("seed", range(10))
def test_those_who_always_have_work_are_served_by_their_weights(seed: int) -> None:
    """Source: Goyal, Vin and Cheng 1996, theorem 1; with a shard more for each worker."""
    chance, largest = random.Random(seed), 64
    weights = {f"t{n}": chance.choice([1.0, 1.0, 2.0, 4.0]) for n in range(6)}
    line = Line(**weights)
    fleet = Fleet(line)
    for tenant in weights:
        line.queue(tenant, [chance.randint(1, largest) for _ in range(4_000)])

    fleet.run_until(800)

    shares = [fleet.served[tenant] / weight for tenant, weight in weights.items()]
    assert max(shares) - min(shares) <= 2 * largest + WORKERS * largest / sum(weights.values())


@pytest.mark.parametrize("urgent", [True, False])
def test_a_deadline_raises_a_job_before_it_is_too_late_and_leaves_the_others_their_turns(
    urgent: bool,
) -> None:
    """Of eight tenants with endless lines one has a job that needs a third more than its turns."""
    line, rivals, window = Line(), [f"t{n}" for n in range(7)], 8_000
    fleet = Fleet(line)
    for tenant in rivals:
        line.queue(tenant, [10] * 20_000)
    fair_share = WORKERS * window // 8
    cost = fair_share * 4 // 3
    line.queue("late", [10] * (cost // 10))
    fleet.run_until(0.75 * window)
    before = Counter(fleet.served)

    if urgent:
        line.hasten("late")
    fleet.run_until(window)

    in_time = fleet.served["late"] == cost // 10 * 10
    gained = {tenant: fleet.served[tenant] - before[tenant] for tenant in rivals}
    assert in_time == urgent
    assert min(gained.values()) >= fair_share / 4 / 2
    assert max(gained.values()) - min(gained.values()) <= 2 * 10 + WORKERS * 10


def test_large_jobs_with_short_windows_take_no_more_than_their_lane() -> None:
    """One job in danger after the other, without end."""
    line, fleet = (made := Line()), Fleet(made)
    line.queue("patient", [10] * 20_000)

    for step in range(20):
        line.queue("hasty", [10] * 2_000)
        line.hasten("hasty")
        fleet.run_until(500.0 * (step + 1))

    assert fleet.served["patient"] >= WORKERS * fleet.time / 6


@pytest.mark.parametrize("seed", range(10))
def test_nobody_starves_though_others_come_without_end(seed: int) -> None:
    """The fleet cannot keep up, and yet who came first has all its turns, one of each tenant's."""
    chance = random.Random(seed)
    line = Line()
    fleet = Fleet(line)
    line.queue("patient", [64] * 20)
    for step in range(400):
        line.queue(f"newcomer {step}", [chance.randint(1, 64) for _ in range(chance.randint(1, 8))])
        line.queue("greedy", [64] * 8)
        fleet.run_until(8.0 * step)
        if fleet.begun_by("patient") == 20:
            break

    assert fleet.begun_by("patient") == 20
    assert fleet.begun_by("greedy") <= 20 + WORKERS
