"""Results come in order, and no more than so many calls are under way."""

import threading
from collections.abc import Iterator

import pytest

from worker.control.ahead import ahead


def test_results_come_in_the_order_of_the_items_whichever_call_ends_first() -> None:
    second_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(60)
        if item == 1:
            second_is_done.set()
        return item * item

    assert list(ahead(work, range(5), most=2)) == [0, 1, 4, 9, 16]


def test_items_are_taken_no_further_than_there_are_threads() -> None:
    taken = list[int]()

    def items() -> Iterator[int]:
        for item in range(10):
            taken.append(item)
            yield item

    results = ahead(str, items(), most=3)

    assert next(results) == "0"
    assert taken == [0, 1, 2]
    assert next(results) == "1"
    assert taken == [0, 1, 2, 3]


def test_a_failure_comes_in_its_place_and_is_the_last_thing_begun() -> None:
    begun = list[int]()

    def work(item: int) -> int:
        begun.append(item)
        if item == 2:
            raise ValueError(item)
        return item

    results = ahead(work, range(100), most=2)

    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="2"):
        next(results)
    assert max(begun) <= 3
