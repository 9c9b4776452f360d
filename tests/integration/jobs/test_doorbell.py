"""Bells are few, however often and by however many they are rung."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from redis import Redis

from jobs.doorbell import CONTROL, KEY_PREFIX, MAX_BELLS, Doorbell

RINGERS = 8


def bells(broker_url: str) -> int:
    with Redis.from_url(broker_url) as redis:
        return int(redis.llen(KEY_PREFIX + CONTROL))


@pytest.mark.law("I8")
def test_a_queue_that_nobody_answers_holds_no_more_bells_than_its_bound(broker_url: str) -> None:
    doorbell = Doorbell(broker_url)

    for _ in range(5 * MAX_BELLS):
        assert doorbell.ring(CONTROL)

    doorbell.close()
    assert bells(broker_url) == MAX_BELLS


@pytest.mark.law("I8")
def test_each_who_rings_at_the_same_moment_may_exceed_the_bound_by_one(broker_url: str) -> None:
    doorbells = [Doorbell(broker_url) for _ in range(RINGERS)]

    def ring(doorbell: Doorbell) -> None:
        for _ in range(2 * MAX_BELLS):
            doorbell.ring(CONTROL)
        doorbell.close()

    with ThreadPoolExecutor(RINGERS) as pool:
        list(pool.map(ring, doorbells))

    assert MAX_BELLS <= bells(broker_url) < MAX_BELLS + RINGERS
