"""Which objects of a drop folder are batches to be."""

import pytest

from jobs import drops


@pytest.mark.parametrize("key", ["in/a.jsonl", "a b.jsonl", "ünï.jsonl"])
def test_a_jsonl_file_is_an_input(key: str) -> None:
    assert drops.is_input(key)


@pytest.mark.parametrize("key", ["in/a.json", "in/", "in/a\x00.jsonl"])
def test_what_is_none_or_has_a_name_that_no_row_can_hold_is_not(key: str) -> None:
    assert not drops.is_input(key)


def test_results_are_no_inputs() -> None:
    results = [f"in/a{ending}" for ending in drops.RESULTS]

    assert [key for key in results if drops.is_input(key)] == []
